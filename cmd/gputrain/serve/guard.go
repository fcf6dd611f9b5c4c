package serve

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// guard lets through what only reads, asked for by a name of this server, and says to browsers that the page needs nothing but itself.
//
// A page of another site can make a browser ask a server on loopback once it has changed what its own name stands for. Such a request has that
// name in its Host header, so names that are not ours are refused. An address cannot be changed so.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !s.ours(r.Host) {
			http.Error(w, "serve: host "+quoted(r.Host)+": not a name of this server; ask for it by its address, or start it with --host", http.StatusMisdirectedRequest)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "serve: method "+quoted(r.Method)+": wanted GET or HEAD", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ours says whether a Host header names this server.
func (s *Server) ours(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if ip := net.ParseIP(name); ip != nil {
		return s.outside || ip.IsLoopback()
	}
	return slices.ContainsFunc(s.hosts, func(n string) bool { return strings.EqualFold(n, name) })
}

// quoted is a short form of something that a stranger wrote.
func quoted(text string) string {
	if len(text) > 60 {
		text = text[:60] + "..."
	}
	return `"` + strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text) + `"`
}
