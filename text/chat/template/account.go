package template

import (
	"fmt"
	"sync"
	"time"
)

// An Account bounds what all renderings of a command take together, as limits bound each: rows may be any number.
// Several goroutines share it. The zero value has the usual bounds.
type Account struct {
	mu         sync.Mutex
	within     time.Duration
	took       time.Duration
	beyond     int // bytes of texts, beside those that renderings may have
	renderings int
	bytes      int64 // of variables
	over       error

	heavy sync.Mutex // of the rendering that has much memory
	clock func() time.Time
}

// What an account bounds: the time of all renderings by Within, eachTime for each and byteTime for each byte of
// variables, and texts by what is beyond eachText and byteText of a rendering. Templates of models take a tenth of
// eachTime, and less than both for a text.
const (
	usualWithin = time.Minute
	eachTime    = 10 * time.Millisecond
	byteTime    = time.Second / 100_000
	eachText    = 64 << 10
	byteText    = 8
	mostBeyond  = 256 << 20
	light       = 8 << 20 // bytes made, above which a rendering is alone
)

// Within sets how long all renderings may take beside what each may; 0: as long as they take. Without it that is a
// minute.
func (a *Account) Within(limit time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.within = limit; limit == 0 {
		a.within = -1
	}
}

// begin begins a rendering with so many bytes of variables, unless too much was taken already.
func (a *Account) begin(bytes int) (begun time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.clock == nil {
		a.clock = time.Now
	}
	a.renderings++
	a.bytes += int64(bytes)
	return a.clock(), a.over
}

// end ends a rendering that has written a text.
func (a *Account) end(begun time.Time, waited time.Duration, bytes, text int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.took += a.clock().Sub(begun) - waited
	a.beyond += max(0, text-eachText-byteText*bytes)
	within := a.within
	if within == 0 {
		within = usualWithin
	}
	may := within + time.Duration(a.renderings)*eachTime + time.Duration(a.bytes)*byteTime
	switch {
	case a.over != nil:
	case within > 0 && a.took > may:
		a.over = fmt.Errorf("chat/template: %d renderings of %d bytes: found %v, wanted at most %v together: "+
			"a faster template, or more time (data.timeout)", a.renderings, a.bytes, a.took.Round(time.Second/10), may.Round(time.Second/10))
	case a.beyond > mostBeyond:
		a.over = fmt.Errorf("chat/template: %d renderings of %d bytes: found texts that are %d MiB longer "+
			"than %d KiB and %d times what they are of, wanted at most %d MiB together", a.renderings, a.bytes, a.beyond>>20, eachText>>10, byteText, mostBeyond>>20)
	}
	return a.over
}

// alone waits until no other rendering has much memory, and tells how long.
func (a *Account) alone() time.Duration {
	begun := a.clock()
	a.heavy.Lock()
	return a.clock().Sub(begun)
}

// size is about how many bytes a value has.
func size(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case *encoded:
		return len(v.text)
	case []any:
		sum := 2
		for _, one := range v {
			sum += 2 + size(one)
		}
		return sum
	case *Object:
		sum := 2
		for i, key := range v.Keys() {
			sum += 6 + len(key) + size(v.values[i])
		}
		return sum
	}
	return 4
}
