module github.com/hashicorp/terraform-provider-tls/shim

go 1.26

require (
	github.com/hashicorp/terraform-plugin-framework v1.19.0
	github.com/hashicorp/terraform-provider-tls v1.2.1-0.20260130152455-857b38cda3fc
)
