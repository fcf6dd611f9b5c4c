package data

// Earlier is what earlier programs made of a text, where this one makes other tokens of some rows. The zero value: they made the same.
type Earlier struct {
	Fingerprint string // of the text, with the tokens of those programs
	Why         string // the first such row, and why it has other tokens now
}
