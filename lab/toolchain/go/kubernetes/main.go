// The Kubernetes provider of Pulumi, built by the lab where the official one cannot be had:
// upstream's provider as it is. Its two data files lie beside the program.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
)

// version is set by the linker to that of the Python SDK.
var version = "0.0.0"

func main() {
	schema, mapping, err := dataFiles()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "kubernetes %s was built by the lab from Go modules; it is not the official plugin\n", version)
	provider.Serve("kubernetes", version, schema, mapping)
}

func dataFiles() (schema, mapping []byte, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		return nil, nil, err
	}
	folder := filepath.Dir(program)
	if schema, err = os.ReadFile(filepath.Join(folder, "schema.json")); err != nil {
		return nil, nil, err
	}
	mapping, err = os.ReadFile(filepath.Join(folder, "terraform-mapping.json"))
	return schema, mapping, err
}
