// Package ext has nothing in it, as in the released Traefik: a place for other products.
package ext

type HTTP struct{}

type Router struct{}
