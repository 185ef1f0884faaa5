package auth

import (
	"net/http"
	"strings"
)

// CheckSecret tells whether a password belongs to what htpasswd has made of it.
func CheckSecret(password, secret string) bool {
	compare := compareFuncs[0].compare
	for _, each := range compareFuncs[1:] {
		if strings.HasPrefix(secret, each.prefix) {
			compare = each.compare
		}
	}
	return compare([]byte(secret), []byte(password)) == nil
}

// RequireAuthStale asks anew: nothing here ever calls an answer stale.
func (a *DigestAuth) RequireAuthStale(w http.ResponseWriter, r *http.Request) {
	a.RequireAuth(w, r)
}
