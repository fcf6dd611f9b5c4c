package data

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

// fingerprint is what a corpus is known by, in the making: its contents and how they are read, whatever its files are called.
type fingerprint struct{ hash.Hash }

// newFingerprint begins with what a corpus is and how it is read.
func newFingerprint(kind string, how string) fingerprint {
	f := fingerprint{sha256.New()}
	f.add("gputrain %s 2\n%s\n", kind, how)
	return f
}

// file adds a file.
func (f fingerprint) file(of file, content []byte) { f.add("%d %x\n", of.size, content) }

// add adds a text.
func (f fingerprint) add(format string, args ...any) { fmt.Fprintf(f, format, args...) }

// set gives a corpus its fingerprint.
func (f fingerprint) set(c *Corpus) { c.Fingerprint = hex.EncodeToString(f.Sum(nil)) }
