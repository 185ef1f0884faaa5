// The TLS provider of Pulumi, built by the lab where the official one cannot be had: the same
// Terraform provider behind the same bridge.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-provider-tls/shim"
	pf "github.com/pulumi/pulumi-terraform-bridge/v3/pkg/pf/tfbridge"
	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/pf/tfgen"
	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfbridge"
	"github.com/pulumi/pulumi/sdk/v3/go/common/diag"
	"github.com/pulumi/pulumi/sdk/v3/go/common/diag/colors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
)

// version is set by the linker to that of the Python SDK.
var version = "0.0.0"

func providerInfo() tfbridge.ProviderInfo {
	resource := func(name string) *tfbridge.ResourceInfo {
		return &tfbridge.ResourceInfo{Tok: tfbridge.MakeResource("tls", "index", name)}
	}
	dataSource := func(name string) *tfbridge.DataSourceInfo {
		return &tfbridge.DataSourceInfo{Tok: tfbridge.MakeDataSource("tls", "index", name)}
	}
	return tfbridge.ProviderInfo{
		P:           pf.ShimProvider(shim.NewProvider()),
		Name:        "tls",
		Version:     version,
		Description: "TLS keys and certificates for Pulumi, built by the openstack-kubernetes lab.",
		License:     "Apache-2.0",
		// No metadata file is kept: it only serves renames between versions of a provider.
		MetadataInfo: tfbridge.NewProviderMetadata([]byte("{}")),
		Resources: map[string]*tfbridge.ResourceInfo{
			"tls_cert_request":        resource("CertRequest"),
			"tls_locally_signed_cert": resource("LocallySignedCert"),
			"tls_private_key":         resource("PrivateKey"),
			"tls_self_signed_cert":    resource("SelfSignedCert"),
		},
		DataSources: map[string]*tfbridge.DataSourceInfo{
			"tls_certificate": dataSource("getCertificate"),
			"tls_public_key":  dataSource("getPublicKey"),
		},
		// As the official provider: a state without a schema version is of version 0.
		EnableZeroDefaultSchemaVersion: true,
	}
}

// schema is what `pulumi package get-schema` shows; the descriptions are those of the Terraform provider.
func schema(ctx context.Context) ([]byte, error) {
	sink := diag.DefaultSink(os.Stderr, os.Stderr, diag.FormatOptions{Color: colors.Never})
	result, err := tfgen.GenerateSchema(ctx, tfgen.GenerateSchemaOptions{
		ProviderInfo: providerInfo(), DiagnosticsSink: sink, XInMemoryDocs: true,
	})
	if err != nil {
		return nil, fmt.Errorf("generate the schema: %w", err)
	}
	return result.ProviderMetadata.PackageSchema, nil
}

func main() {
	fmt.Fprintf(os.Stderr, "tls %s was built by the lab from Go modules; it is not the official plugin\n", version)
	// A Python program never asks for the schema, so it is made only when somebody does.
	pf.Main(context.Background(), "tls", providerInfo(), pf.ProviderMetadata{
		XGetSchema: func(ctx context.Context, _ plugin.GetSchemaRequest) ([]byte, error) { return schema(ctx) },
	})
}
