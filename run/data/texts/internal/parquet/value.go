package parquet

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// writer appends a value as JSON.
type writer func(dst []byte, v *parquet.Value) ([]byte, error)

// writerOf is that of a column's type.
func writerOf(of parquet.Type) writer {
	logical := of.LogicalType()
	if logical == nil {
		return plain
	}
	switch is := logical.Value.(type) {
	case *format.StringType, *format.EnumType:
		return func(dst []byte, v *parquet.Value) ([]byte, error) { return quoted(dst, v.Bytes()), nil }
	case *format.JsonType:
		return embedded
	case *format.UUIDType:
		return uuid
	case *format.DecimalType:
		return func(dst []byte, v *parquet.Value) ([]byte, error) { return decimal(dst, v, int(is.Scale)) }
	case *format.IntType:
		if !is.IsSigned {
			return func(dst []byte, v *parquet.Value) ([]byte, error) {
				if v.Kind() == parquet.Int32 {
					return strconv.AppendUint(dst, uint64(v.Uint32()), 10), nil
				}
				return strconv.AppendUint(dst, v.Uint64(), 10), nil
			}
		}
	case *format.DateType:
		return func(dst []byte, v *parquet.Value) ([]byte, error) {
			return quotedTime(dst, time.Unix(int64(v.Int32())*86400, 0), "2006-01-02"), nil
		}
	case *format.TimeType:
		return clock(is.Unit, "15:04:05.999999999")
	case *format.TimestampType:
		layout := "2006-01-02T15:04:05.999999999"
		if is.IsAdjustedToUTC {
			layout += "Z"
		}
		return clock(is.Unit, layout)
	}
	return plain
}

// plain is what a value is without an annotation.
func plain(dst []byte, v *parquet.Value) ([]byte, error) {
	switch v.Kind() {
	case parquet.Boolean:
		return strconv.AppendBool(dst, v.Boolean()), nil
	case parquet.Int32:
		return strconv.AppendInt(dst, int64(v.Int32()), 10), nil
	case parquet.Int64:
		return strconv.AppendInt(dst, v.Int64(), 10), nil
	case parquet.Int96:
		return quotedTime(dst, spark(v.Int96()), "2006-01-02T15:04:05.999999999"), nil
	case parquet.Float:
		return float(dst, float64(v.Float()), 32), nil
	case parquet.Double:
		return float(dst, v.Double(), 64), nil
	case parquet.ByteArray, parquet.FixedLenByteArray:
		raw := v.Bytes()
		if v.Kind() == parquet.ByteArray && utf8.Valid(raw) {
			return quoted(dst, raw), nil
		}
		return quoted(dst, []byte(base64.StdEncoding.EncodeToString(raw))), nil
	}
	return dst, fmt.Errorf("a value of type %v, wanted text, a number or a truth value", v.Kind())
}

// quoted appends text as JSON. Bytes that are not UTF-8 stay: what becomes of them is decided where lines are read.
func quoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	from := 0
	for i, c := range text {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\r':
			dst = append(dst, `\r`...)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, c)
		}
	}
	return append(append(dst, text[from:]...), '"')
}

// float appends a number that stays one of floating point when it is read.
func float(dst []byte, f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	from := len(dst)
	form := byte('f')
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) {
		form = 'e'
	}
	dst = strconv.AppendFloat(dst, f, form, -1, bits)
	if !strings.ContainsAny(string(dst[from:]), ".e") {
		dst = append(dst, ".0"...)
	}
	return dst
}

func embedded(dst []byte, v *parquet.Value) ([]byte, error) {
	raw := v.Bytes()
	if !json.Valid(raw) {
		return dst, errors.New("is said to hold JSON, and does not")
	}
	return append(dst, raw...), nil
}

func uuid(dst []byte, v *parquet.Value) ([]byte, error) {
	raw := v.Bytes()
	if len(raw) != 16 {
		return dst, fmt.Errorf("a UUID of %d bytes, wanted 16", len(raw))
	}
	return fmt.Appendf(dst, `"%x-%x-%x-%x-%x"`, raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:]), nil
}

// mostScale is that of the decimals that are read: Parquet's widest have 76 digits.
const mostScale = 76

// decimal is a whole number, big-endian where it is bytes, of which so many digits stand after the point.
func decimal(dst []byte, v *parquet.Value, scale int) ([]byte, error) {
	if scale < 0 || scale > mostScale {
		return dst, fmt.Errorf("a decimal of scale %d, wanted 0 to %d", scale, mostScale)
	}
	n := new(big.Int)
	switch v.Kind() {
	case parquet.Int32:
		n.SetInt64(int64(v.Int32()))
	case parquet.Int64:
		n.SetInt64(v.Int64())
	default:
		raw := v.Bytes()
		if len(raw) > 32 {
			return dst, fmt.Errorf("a decimal of %d bytes, wanted at most 32", len(raw))
		}
		n.SetBytes(raw)
		if len(raw) > 0 && raw[0]>>7 == 1 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
		}
	}
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	return append(dst, new(big.Rat).SetFrac(n, ten).FloatString(scale)...), nil
}

// clock is a time in a unit, from midnight or from 1970 on.
func clock(unit format.TimeUnit, layout string) writer {
	each := int64(time.Millisecond)
	if unit.Value != nil {
		each = int64(unit.Value.Duration())
	}
	return func(dst []byte, v *parquet.Value) ([]byte, error) {
		n := v.Int64()
		if v.Kind() == parquet.Int32 {
			n = int64(v.Int32())
		}
		second := int64(time.Second) / each
		return quotedTime(dst, time.Unix(n/second, n%second*each), layout), nil
	}
}

// spark is a time in nanoseconds of a Julian day, as Spark and Impala wrote it.
func spark(of deprecated.Int96) time.Time {
	const epoch = 2440588 // the Julian day of 1970-01-01
	nanoseconds := int64(uint64(of[1])<<32 | uint64(of[0]))
	return time.Unix((int64(of[2])-epoch)*86400, nanoseconds)
}

func quotedTime(dst []byte, at time.Time, layout string) []byte {
	return quoted(dst, []byte(at.UTC().Format(layout)))
}
