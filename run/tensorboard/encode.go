package tensorboard

import (
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of fields, as tensorboard/compat/proto in github.com/tensorflow/tensorboard has them: event.proto, summary.proto,
// histogram.proto, tensor.proto.
const (
	eventWallTime, eventStep, eventFileVersion, eventSummary, eventSessionLog = 1, 2, 3, 5, 7

	sessionLogStatus = 1
	statusStart      = 1

	summaryValue = 1

	valueTag, valueSimple, valueHistogram, valueTensor, valueMetadata = 1, 2, 5, 8, 9

	histogramMin, histogramMax, histogramNum, histogramSum, histogramSumSquares, histogramLimit, histogramBucket = 1, 2, 3, 4, 5, 6, 7

	tensorDType, tensorShape, tensorString = 1, 2, 8
	dtypeString                            = 7

	metadataPluginData, metadataDataClass = 1, 4
	pluginDataName                        = 1
	dataClassTensor                       = 2
)

// encode is the message of an event, without anything that is zero.
func encode(e Event) ([]byte, error) {
	var b []byte
	b = appendDouble(b, eventWallTime, e.WallTime)
	if e.Step != 0 {
		b = appendVarint(b, eventStep, uint64(e.Step))
	}
	if e.Version != "" {
		b = appendText(b, eventFileVersion, e.Version)
	}
	if e.Start {
		b = appendMessage(b, eventSessionLog, appendVarint(nil, sessionLogStatus, statusStart))
	}
	if len(e.Values) == 0 {
		return b, nil
	}
	var summary []byte
	for _, v := range e.Values {
		message, err := encodeValue(v)
		if err != nil {
			return nil, err
		}
		summary = appendMessage(summary, summaryValue, message)
	}
	return appendMessage(b, eventSummary, summary), nil
}

// encodeValue writes scalars and histograms in the forms that every TensorBoard has read, which those of today turn into tensors themselves. A
// text has no such form.
func encodeValue(v Value) ([]byte, error) {
	if !utf8.ValidString(v.Tag) {
		return nil, fmt.Errorf("tensorboard: write: tag %q: found bytes that are not UTF-8, wanted text", v.Tag)
	}
	b := appendText(nil, valueTag, v.Tag)
	switch v.Kind {
	case Scalar:
		return protowire.AppendFixed32(protowire.AppendTag(b, valueSimple, protowire.Fixed32Type), math.Float32bits(v.Scalar)), nil
	case Distribution:
		return appendMessage(b, valueHistogram, encodeHistogram(v.Histogram)), nil
	case Text:
		plugin := appendText(nil, pluginDataName, "text")
		metadata := appendVarint(appendMessage(nil, metadataPluginData, plugin), metadataDataClass, dataClassTensor)
		tensor := appendMessage(appendVarint(nil, tensorDType, dtypeString), tensorShape, nil) // of rank 0
		tensor = appendText(tensor, tensorString, v.Text)
		return appendMessage(appendMessage(b, valueTensor, tensor), valueMetadata, metadata), nil
	}
	return nil, fmt.Errorf("tensorboard: write %q: found a value of kind %d, wanted a scalar, a histogram or text", v.Tag, v.Kind)
}

func encodeHistogram(h *Histogram) (b []byte) {
	for i, v := range []float64{h.Min, h.Max, h.Count, h.Sum, h.SumOfSquares} {
		b = appendDouble(b, protowire.Number(histogramMin+i), v)
	}
	b = appendMessage(b, histogramLimit, packed(h.Limits))
	return appendMessage(b, histogramBucket, packed(h.Counts))
}

func packed(values []float64) (b []byte) {
	for _, v := range values {
		b = protowire.AppendFixed64(b, math.Float64bits(v))
	}
	return b
}

func appendDouble(b []byte, n protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, n, protowire.Fixed64Type), math.Float64bits(v))
}

func appendVarint(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

func appendMessage(b []byte, n protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), message)
}

func appendText(b []byte, n protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), text)
}
