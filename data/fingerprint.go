package data

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

// fingerprints are the two forms of a fingerprint that are made at the same time: of contents alone, and as older programs made it, with the names
// of files, by which a run of theirs is known.
type fingerprints struct{ now, former hash.Hash }

// newFingerprints begins with what a corpus is, in either form, and how it is read.
func newFingerprints(kind string, how string) fingerprints {
	f := fingerprints{sha256.New(), sha256.New()}
	fmt.Fprintf(f.now, "gputrain %s 2\n%s\n", kind, how)
	fmt.Fprintf(f.former, "gputrain %s 1\n%s\n", kind, how)
	return f
}

// file adds a file.
func (f fingerprints) file(of file, content []byte) {
	fmt.Fprintf(f.now, "%d %x\n", of.size, content)
	fmt.Fprintf(f.former, "%q %d %x\n", of.name, of.size, content)
}

// add adds what both forms have.
func (f fingerprints) add(format string, args ...any) {
	fmt.Fprintf(f.now, format, args...)
	fmt.Fprintf(f.former, format, args...)
}

// set gives a corpus its fingerprints.
func (f fingerprints) set(c *Corpus) {
	c.Fingerprint, c.Former = hex.EncodeToString(f.now.Sum(nil)), hex.EncodeToString(f.former.Sum(nil))
}
