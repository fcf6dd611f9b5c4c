// Package listen opens the addresses at which commands answer: this machine's loopback, unless another one is named on purpose.
package listen

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
)

// Listener is where a command answers.
type Listener struct {
	net.Listener
	Hosts
	// URL is what to type into a browser.
	URL string
}

// Hosts are what a server may be asked for by.
//
// A page of another site can make a browser ask a server on loopback once it has changed what its own name stands for. Such a request has that
// name in its Host header, so names that are not ours are refused. An address cannot be changed so.
type Hosts struct {
	Names   []string // beside addresses
	Outside bool     // others may ask too, by any address
}

// Open opens an address such as ":0", "8080" or "localhost:8080". Without a host it is this machine's loopback. An address that other machines
// reach has to be named by host, which says that it is meant.
func Open(address, host string) (*Listener, error) {
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	found, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen: address %q: %w", address, err)
	}
	if found != "" && host != "" && found != host {
		return nil, fmt.Errorf("listen: address %q: found host %q, wanted %q as --host says", address, found, host)
	}
	if host == "" && found != "" {
		if !loopback(found) {
			return nil, fmt.Errorf("listen: address %q: found a host that other machines may reach, wanted loopback; "+
				"--host %s opens it to everybody who reaches that", address, found)
		}
		host = found
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	out := &Listener{Listener: l, URL: "http://" + l.Addr().String() + "/", Hosts: Hosts{Names: []string{"localhost"}}}
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		out.Outside = true
		if name, err := os.Hostname(); err == nil {
			out.Names = append(out.Names, name)
			if tcp.IP.IsUnspecified() {
				out.URL = "http://" + net.JoinHostPort(name, fmt.Sprint(tcp.Port)) + "/"
			}
		}
		if net.ParseIP(host) == nil {
			out.Names = append(out.Names, host)
		}
	}
	return out, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Has tells whether a Host header names this server.
func (h Hosts) Has(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if ip := net.ParseIP(name); ip != nil {
		return h.Outside || ip.IsLoopback()
	}
	return slices.ContainsFunc(h.Names, func(n string) bool { return strings.EqualFold(n, name) })
}

// Quoted is a short form of something that a stranger wrote.
func Quoted(text string) string {
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
