// The random provider of Pulumi as far as the program uses it: random bytes. It is written for the
// lab because no module proxy serves the Terraform provider behind the official one.
package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"

	p "github.com/pulumi/pulumi-go-provider"
	"github.com/pulumi/pulumi-go-provider/infer"
	"github.com/pulumi/pulumi-go-provider/middleware/schema"
)

// version is set by the linker to that of the Python SDK.
var version = "0.0.0"

// RandomBytes is made once, and again when an argument changes.
type RandomBytes struct{}

// Annotate gives the resource the official provider's type.
func (r *RandomBytes) Annotate(a infer.Annotator) {
	a.SetToken("index/randomBytes", "RandomBytes")
}

// RandomBytesInputs are how many bytes, and anything whose change asks for others.
type RandomBytesInputs struct {
	Length  int               `pulumi:"length" provider:"replaceOnChanges"`
	Keepers map[string]string `pulumi:"keepers,optional" provider:"replaceOnChanges"`
}

// RandomBytesOutputs are the inputs and the bytes in two notations.
type RandomBytesOutputs struct {
	RandomBytesInputs
	Base64 string `pulumi:"base64" provider:"secret"`
	Hex    string `pulumi:"hex" provider:"secret"`
}

// Check refuses what the official provider refuses.
func (*RandomBytes) Check(
	ctx context.Context, request infer.CheckRequest,
) (infer.CheckResponse[RandomBytesInputs], error) {
	inputs, failures, err := infer.DefaultCheck[RandomBytesInputs](ctx, request.NewInputs)
	if length, given := request.NewInputs.GetOk("length"); given && length.IsNumber() && inputs.Length < 1 {
		failures = append(failures, p.CheckFailure{Property: "length", Reason: "must be at least 1"})
	}
	return infer.CheckResponse[RandomBytesInputs]{Inputs: inputs, Failures: failures}, err
}

// Create takes the bytes from the machine's cryptographic generator.
func (*RandomBytes) Create(
	_ context.Context, request infer.CreateRequest[RandomBytesInputs],
) (infer.CreateResponse[RandomBytesOutputs], error) {
	state := RandomBytesOutputs{RandomBytesInputs: request.Inputs}
	if !request.DryRun {
		bytes := make([]byte, request.Inputs.Length)
		if _, err := rand.Read(bytes); err != nil {
			return infer.CreateResponse[RandomBytesOutputs]{}, fmt.Errorf("no random bytes: %w", err)
		}
		state.Base64 = base64.StdEncoding.EncodeToString(bytes)
		state.Hex = hex.EncodeToString(bytes)
	}
	// The official provider has no other id: it would have to be the secret.
	return infer.CreateResponse[RandomBytesOutputs]{ID: "none", Output: state}, nil
}

func newProvider() p.Provider {
	return infer.Provider(infer.Options{
		Metadata: schema.Metadata{
			DisplayName: "Random",
			Description: "Random bytes, built by the openstack-kubernetes lab.",
		},
		Resources: []infer.InferredResource{infer.Resource(&RandomBytes{})},
	})
}

func main() {
	fmt.Fprintf(os.Stderr, "random %s was written and built by the lab; it is not the official plugin\n", version)
	if err := p.RunProvider(context.Background(), "random", version, newProvider()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
