// Traefik, without the DNS services that ACME knows and without the dashboard's pages.
module lab.invalid/traefik

go 1.26.0

require (
	// Traefik's own forks of these two are not to be had.
	github.com/abbot/go-http-auth v0.4.0
	github.com/gorilla/mux v1.8.1
	github.com/traefik/traefik/v3 v3.7.11
)

replace github.com/traefik/traefik/dynamic/ext => ./ext
