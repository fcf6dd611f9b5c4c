package serve

import (
	"fmt"
	"net"
	"os"
	"strings"
)

// Listener is where a page is asked for.
type Listener struct {
	net.Listener
	// URL is what to type into a browser.
	URL string
	// Warning is what whoever starts the server should know, or "".
	Warning string

	names   []string
	outside bool
}

// Listen opens an address such as ":0", "8080" or "localhost:8080". Without a host it is this machine's loopback. An address that other machines
// reach has to be named by host, which says that it is meant.
func Listen(address, host string) (*Listener, error) {
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	found, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("serve: address %q: %w", address, err)
	}
	if found != "" && host != "" && found != host {
		return nil, fmt.Errorf("serve: address %q: found host %q, wanted %q as --host says", address, found, host)
	}
	if host == "" && found != "" {
		if !loopback(found) {
			return nil, fmt.Errorf("serve: address %q: found a host that other machines may reach, wanted loopback; "+
				"--host %s shows these runs to everybody who reaches it", address, found)
		}
		host = found
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	out := &Listener{Listener: l, URL: "http://" + l.Addr().String() + "/", names: []string{"localhost"}}
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		out.outside = true
		if name, err := os.Hostname(); err == nil {
			out.names = append(out.names, name)
			if tcp.IP.IsUnspecified() {
				out.URL = "http://" + net.JoinHostPort(name, fmt.Sprint(tcp.Port)) + "/"
			}
		}
		if net.ParseIP(host) == nil {
			out.names = append(out.names, host)
		}
		out.Warning = fmt.Sprintf("everybody who reaches %s can read these runs: settings, samples and reports", l.Addr())
	}
	return out, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
