package tensorboard

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// published are the messages of TensorBoard's event.proto, summary.proto, histogram.proto, tensor.proto and tensor_shape.proto, as far as
// they matter here. The fields of these messages that have a * are repeated.
var published = map[string]string{
	"Event":            "wall_time=1:double step=2:int64 file_version=3:string summary=5:Summary session_log=7:SessionLog source_metadata=10:SourceMetadata",
	"SourceMetadata":   "writer=1:string",
	"SessionLog":       "status=1:int32 checkpoint_path=2:string msg=3:string",
	"Summary":          "value=1:Value*",
	"Value":            "tag=1:string simple_value=2:float histo=5:HistogramProto tensor=8:TensorProto metadata=9:SummaryMetadata",
	"HistogramProto":   "min=1:double max=2:double num=3:double sum=4:double sum_squares=5:double bucket_limit=6:double* bucket=7:double*",
	"TensorProto":      "dtype=1:int32 tensor_shape=2:TensorShapeProto float_val=5:float* string_val=8:bytes*",
	"TensorShapeProto": "dim=2:Dim*",
	"Dim":              "size=1:int64 name=2:string",
	"SummaryMetadata":  "plugin_data=1:PluginData display_name=2:string data_class=4:int32",
	"PluginData":       "plugin_name=1:string content=2:bytes",
}

// eventOf is an empty Event for the protobuf library, which knows nothing of this package.
func eventOf(t testing.TB) *dynamicpb.Message {
	t.Helper()
	event, err := descriptor()
	require.NoError(t, err)
	return dynamicpb.NewMessage(event)
}

// descriptor is that of the published Event.
var descriptor = sync.OnceValues(func() (protoreflect.MessageDescriptor, error) {
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("event.proto"), Syntax: proto.String("proto3")}
	for name, fields := range published {
		message := &descriptorpb.DescriptorProto{Name: proto.String(name)}
		for _, f := range strings.Fields(fields) {
			f, repeated := strings.CutSuffix(f, "*")
			key, kind, _ := strings.Cut(f, ":")
			key, number, _ := strings.Cut(key, "=")
			n, err := strconv.Atoi(number)
			if err != nil {
				return nil, err
			}
			d := &descriptorpb.FieldDescriptorProto{Name: proto.String(key), JsonName: proto.String(key), Number: proto.Int32(int32(n))}
			d.Label = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
			if repeated {
				d.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			}
			if simple, ok := descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+strings.ToUpper(kind)]; ok {
				d.Type = descriptorpb.FieldDescriptorProto_Type(simple).Enum()
			} else {
				d.Type, d.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String("."+kind)
			}
			message.Field = append(message.Field, d)
		}
		file.MessageType = append(file.MessageType, message)
	}
	d, err := protodesc.NewFile(file, nil)
	if err != nil {
		return nil, err
	}
	return d.Messages().ByName("Event"), nil
})

// cases are events, and what they are in the JSON form of their messages.
var cases = []struct {
	event Event
	json  string
}{
	{Event{WallTime: 1.75, Version: fileVersion}, `{"wall_time": 1.75, "file_version": "brain.Event:2"}`},
	{Event{WallTime: 2, Step: 29, Start: true}, `{"wall_time": 2, "step": "29", "session_log": {"status": 1}}`},
	{
		Event{WallTime: 3, Step: -1, Values: []Value{{Tag: "train/loss", Kind: Scalar, Scalar: 2.5}, {Tag: "zero", Kind: Scalar}}},
		`{"wall_time": 3, "step": "-1", "summary": {"value": [{"tag": "train/loss", "simple_value": 2.5}, {"tag": "zero"}]}}`,
	},
	{
		Event{WallTime: 4, Step: 1 << 40, Values: []Value{{Tag: "grads/h.0.ü", Kind: Distribution, Histogram: &Histogram{
			Min: -1, Max: 3, Count: 5, Sum: 4, SumOfSquares: 20, Limits: []float64{0, 1.5, 3}, Counts: []float64{2, 0, 3},
		}}}},
		`{"wall_time": 4, "step": "1099511627776", "summary": {"value": [{"tag": "grads/h.0.ü", "histo":
			{"min": -1, "max": 3, "num": 5, "sum": 4, "sum_squares": 20, "bucket_limit": [0, 1.5, 3], "bucket": [2, 0, 3]}}]}}`,
	},
	{
		Event{WallTime: 5, Step: 6, Values: []Value{{Tag: "sample", Kind: Text, Text: "    To be"}}},
		`{"wall_time": 5, "step": "6", "summary": {"value": [{"tag": "sample",
			"tensor": {"dtype": 7, "tensor_shape": {}, "string_val": ["ICAgIFRvIGJl"]},
			"metadata": {"plugin_data": {"plugin_name": "text"}, "data_class": 2}}]}}`,
	},
}

// What this package writes is what the protobuf library reads by the published numbers, and what the tests read by it are the events that were written.
func TestEventsAreTheMessagesOfTensorBoard(t *testing.T) {
	for _, c := range cases {
		message, err := encode(c.event)
		require.NoError(t, err)
		read := eventOf(t)
		require.NoError(t, proto.UnmarshalOptions{}.Unmarshal(message, read))
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(read)
		require.NoError(t, err)
		assert.JSONEq(t, c.json, string(text))
		assert.Equal(t, c.event, decode(t, message))
	}
}

// assertKnown wants a message without a field that is not published.
func assertKnown(t testing.TB, m protoreflect.Message) {
	t.Helper()
	assert.Empty(t, m.GetUnknown(), "%s", m.Descriptor().Name())
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case d.Kind() != protoreflect.MessageKind:
		case d.IsList():
			for i := range v.List().Len() {
				assertKnown(t, v.List().Get(i).Message())
			}
		default:
			assertKnown(t, v.Message())
		}
		return true
	})
}

func TestNumbersThatAreNotFiniteStayWhatTheyAre(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	message, err := encode(Event{Values: []Value{{Tag: "a", Kind: Scalar, Scalar: nan}, {Tag: "b", Kind: Scalar, Scalar: inf}}})
	require.NoError(t, err)
	found := decode(t, message).Values
	assert.True(t, math.IsNaN(float64(found[0].Scalar)))
	assert.Equal(t, inf, found[1].Scalar)
}

func TestWrongEvents(t *testing.T) {
	_, err := encode(Event{Values: []Value{{Tag: "x"}}})
	assert.ErrorContains(t, err, "found a value of kind 0")
	_, err = encode(Event{Values: []Value{{Tag: "\xff", Kind: Scalar}}})
	assert.ErrorContains(t, err, "not UTF-8")
}
