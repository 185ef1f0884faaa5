package mux

type routingPathKey struct{}

// RoutingPathKey is where Traefik keeps the path that it matches rules with.
var RoutingPathKey routingPathKey

// UseRoutingPath does nothing: the routers that ask for it serve rules of version 2 only.
func (r *Router) UseRoutingPath() *Router { return r }
