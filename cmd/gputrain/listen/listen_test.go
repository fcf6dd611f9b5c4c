package listen

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpen(t *testing.T) {
	for _, address := range []string{":0", "0", "127.0.0.1:0", "localhost:0"} {
		l, err := Open(address, "")
		require.NoError(t, err, address)
		assert.True(t, l.Addr().(*net.TCPAddr).IP.IsLoopback(), address)
		assert.False(t, l.Outside)
		assert.True(t, strings.HasPrefix(l.URL, "http://127.0.0.1:"), l.URL)
		require.NoError(t, l.Close())
	}
	for _, address := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.org:0"} {
		_, err := Open(address, "")
		assert.ErrorContains(t, err, "--host", address)
	}
	_, err := Open("127.0.0.1:0", "0.0.0.0")
	assert.ErrorContains(t, err, "wanted")
	_, err = Open(":nonsense", "")
	assert.Error(t, err)
	l, err := Open(":0", "0.0.0.0")
	require.NoError(t, err)
	defer l.Close()
	assert.True(t, l.Outside)
	name, err := os.Hostname()
	require.NoError(t, err)
	assert.Equal(t, []string{"localhost", name}, l.Names, "by which others may ask")
	assert.Equal(t, fmt.Sprintf("http://%s:%d/", name, l.Addr().(*net.TCPAddr).Port), l.URL)
}
