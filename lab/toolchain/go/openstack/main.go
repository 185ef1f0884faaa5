// The OpenStack provider of Pulumi, built by the lab where the official one cannot be had: the
// same Terraform provider behind the same bridge, with the resources that a cluster needs.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfbridge"
	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfgen"
	shim "github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfshim/sdk-v2"
	"github.com/pulumi/pulumi/sdk/v3/go/common/diag"
	"github.com/pulumi/pulumi/sdk/v3/go/common/diag/colors"
	"github.com/terraform-provider-openstack/terraform-provider-openstack/v3/openstack"
)

// version is set by the linker to that of the Python SDK.
var version = "0.0.0"

func providerInfo() tfbridge.ProviderInfo {
	provider := shim.NewProvider(openstack.Provider())
	info := tfbridge.ProviderInfo{
		P:           provider,
		Name:        "openstack",
		Version:     version,
		Description: "OpenStack for Pulumi, built by the openstack-kubernetes lab.",
		License:     "Apache-2.0",
		Resources:   map[string]*tfbridge.ResourceInfo{},
		DataSources: map[string]*tfbridge.DataSourceInfo{},
	}
	for name, token := range resources {
		info.Resources[name] = &tfbridge.ResourceInfo{Tok: tfbridge.MakeResource("openstack", token.module, token.member)}
	}
	for name, token := range dataSources {
		info.DataSources[name] = &tfbridge.DataSourceInfo{Tok: tfbridge.MakeDataSource("openstack", token.module, token.member)}
	}
	// A mapping above wins over this list; what is in neither table is left out.
	for name := range openstack.Provider().ResourcesMap {
		info.IgnoreMappings = append(info.IgnoreMappings, name)
	}
	for name := range openstack.Provider().DataSourcesMap {
		info.IgnoreMappings = append(info.IgnoreMappings, name)
	}
	// The official provider appends seven hex digits to the names it makes up.
	info.SetAutonaming(255, "-")
	return info
}

// schema describes the resources as the bridge derives them; inputs are checked against it.
func schema(info tfbridge.ProviderInfo) ([]byte, error) {
	sink := diag.DefaultSink(os.Stderr, os.Stderr, diag.FormatOptions{Color: colors.Never})
	result, err := tfgen.GenerateSchemaWithOptions(tfgen.GenerateSchemaOptions{
		ProviderInfo: info, DiagnosticsSink: sink, XInMemoryDocs: true,
	})
	if err != nil {
		return nil, fmt.Errorf("generate the schema: %w", err)
	}
	return json.Marshal(result.PackageSpec)
}

func main() {
	info := providerInfo()
	// Made at every start: it takes some 50 ms and cannot be older than the tables.
	text, err := schema(info)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "openstack %s was built by the lab from Go modules; it is not the official plugin\n", version)
	tfbridge.Main("openstack", version, info, text)
}
