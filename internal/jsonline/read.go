package jsonline

import (
	"bufio"
	"errors"
	"fmt"
)

// Read returns the next line of at most so many bytes, which stays as it is until the next call; with the last, which may lack its end, comes io.EOF.
func Read(r *bufio.Reader, most int) ([]byte, error) {
	var long []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(long)+len(part) > most {
			return nil, fmt.Errorf("longer than %d bytes: is it JSON, one object a line?", most)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			long = append(long, part...)
		case long == nil:
			return part, err
		default:
			return append(long, part...), err
		}
	}
}
