// The command provider of Pulumi, written for the lab because the official one is no Go module
// that a proxy serves: the resources that the program uses, with the same schema and behaviour.
package main

import (
	"context"
	"fmt"
	"os"

	p "github.com/pulumi/pulumi-go-provider"
	"github.com/pulumi/pulumi-go-provider/infer"
	"github.com/pulumi/pulumi-go-provider/middleware/schema"

	"openstack-kubernetes/lab/command/local"
	"openstack-kubernetes/lab/command/remote"
)

// version is set by the linker to that of the Python SDK.
var version = "0.0.0"

func newProvider() p.Provider {
	return infer.Provider(infer.Options{
		Metadata: schema.Metadata{
			DisplayName: "Command",
			Description: "Commands on this machine and over SSH, built by the openstack-kubernetes lab.",
		},
		Resources: []infer.InferredResource{
			infer.Resource(&local.Command{}),
			infer.Resource(&remote.Command{}),
			infer.Resource(&remote.CopyToRemote{}),
		},
		Functions: []infer.InferredFunction{infer.Function(&local.Run{})},
	})
}

func main() {
	fmt.Fprintf(os.Stderr, "command %s was written and built by the lab; it is not the official plugin\n", version)
	if err := p.RunProvider(context.Background(), "command", version, newProvider()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
