// Package shim hands out the TLS provider, which upstream keeps in an internal package: only a
// module whose path lies under upstream's may import it.
package shim

import (
	"github.com/hashicorp/terraform-plugin-framework/provider"
	tls "github.com/hashicorp/terraform-provider-tls/internal/provider"
)

// NewProvider makes the provider.
func NewProvider() provider.Provider {
	return tls.New()
}
