package tensorboard

import (
	"encoding/binary"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Log is what TensorBoard shows of event files.
type Log struct {
	Series map[string][]Point // by tag, in the order of the files
	Starts []int64            // the first step of each process
	Cut    []string           // files that end within a record
}

// Point is a value at a step.
type Point struct {
	Step     int64
	WallTime float64
	Value    Value
}

// ReadLog reads files in the order in which they were begun. Of points that a later process has made again only those are left.
func ReadLog(t testing.TB, files ...string) *Log {
	t.Helper()
	l := &Log{Series: map[string][]Point{}}
	for _, name := range files {
		events, cut := eventsIn(t, name)
		if cut {
			l.Cut = append(l.Cut, name)
		}
		for _, e := range events {
			if e.Start {
				l.Starts = append(l.Starts, e.Step)
				for tag, points := range l.Series {
					l.Series[tag] = slices.DeleteFunc(points, func(p Point) bool { return p.Step >= e.Step })
				}
			}
			for _, v := range e.Values {
				l.Series[v.Tag] = append(l.Series[v.Tag], Point{Step: e.Step, WallTime: e.WallTime, Value: v})
			}
		}
	}
	return l
}

// eventsIn are the events of a file, and whether it ends within a record.
func eventsIn(t testing.TB, name string) (events []Event, cut bool) {
	t.Helper()
	file, err := os.ReadFile(name)
	require.NoError(t, err)
	for len(file) >= 12 {
		length, check := binary.LittleEndian.Uint64(file), binary.LittleEndian.Uint32(file[8:])
		require.Equal(t, masked(file[:8]), check)
		if file = file[12:]; uint64(len(file)) < length+4 {
			return events, true
		}
		require.Equal(t, masked(file[:length]), binary.LittleEndian.Uint32(file[length:]))
		events = append(events, decode(t, file[:length]))
		file = file[length+4:]
	}
	return events, len(file) > 0
}

// decode is the event of a message, as the protobuf library reads it by the published numbers.
func decode(t testing.TB, message []byte) Event {
	t.Helper()
	m := eventOf(t)
	require.NoError(t, proto.Unmarshal(message, m))
	assertKnown(t, m)
	e := Event{
		WallTime: get(m, "wall_time").Float(), Step: get(m, "step").Int(), Version: get(m, "file_version").String(),
		Start: get(get(m, "session_log").Message(), "status").Int() == statusStart,
	}
	values := get(get(m, "summary").Message(), "value").List()
	for i := range values.Len() {
		m := values.Get(i).Message()
		v := Value{Tag: get(m, "tag").String(), Kind: Scalar, Scalar: float32(get(m, "simple_value").Float())}
		if texts := get(get(m, "tensor").Message(), "string_val").List(); texts.Len() > 0 {
			v.Kind, v.Text = Text, string(texts.Get(0).Bytes())
		}
		if h := get(m, "histo").Message(); h.IsValid() {
			number := func(name protoreflect.Name) float64 { return get(h, name).Float() }
			v.Kind, v.Histogram = Distribution, &Histogram{
				Min: number("min"), Max: number("max"), Count: number("num"), Sum: number("sum"), SumOfSquares: number("sum_squares"),
				Limits: doubles(h, "bucket_limit"), Counts: doubles(h, "bucket"),
			}
		}
		e.Values = append(e.Values, v)
	}
	return e
}

func get(m protoreflect.Message, field protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(field))
}

func doubles(m protoreflect.Message, field protoreflect.Name) (out []float64) {
	list := get(m, field).List()
	for i := range list.Len() {
		out = append(out, list.Get(i).Float())
	}
	return out
}
