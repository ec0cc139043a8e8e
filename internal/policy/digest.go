package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"reflect"
)

// digest names the resolved policy: what it says, not where it stands nor on
// which host. Every value is written with its kind and length, so two policies
// have one digest only if they say the same.
func (m *merged) digest() string {
	h := sha256.New()
	writeValue(h, reflect.ValueOf(m.Policy))
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func writeValue(h hash.Hash, v reflect.Value) {
	var head [9]byte
	put := func(kind byte, n uint64) {
		head[0] = kind
		binary.BigEndian.PutUint64(head[1:], n)
		h.Write(head[:])
	}
	switch v.Kind() {
	case reflect.String:
		put('s', uint64(v.Len()))
		h.Write([]byte(v.String()))
	case reflect.Bool:
		n := uint64(0)
		if v.Bool() {
			n = 1
		}
		put('b', n)
	case reflect.Int, reflect.Int64:
		put('i', uint64(v.Int()))
	case reflect.Float64:
		put('f', math.Float64bits(v.Float()))
	case reflect.Slice:
		if v.IsNil() {
			put('n', 0)
			return
		}
		put('l', uint64(v.Len()))
		for i := range v.Len() {
			writeValue(h, v.Index(i))
		}
	case reflect.Map:
		put('m', uint64(v.Len()))
		env := map[string]*string{}
		for k, e := range v.Seq2() {
			env[k.String()], _ = e.Interface().(*string)
		}
		for _, k := range sortedKeys(env) {
			writeValue(h, reflect.ValueOf(k))
			writeValue(h, reflect.ValueOf(env[k]))
		}
	case reflect.Pointer:
		if v.IsNil() {
			put('n', 0)
			return
		}
		put('p', 1)
		writeValue(h, v.Elem())
	case reflect.Struct:
		put('t', uint64(v.NumField()))
		for i := range v.NumField() {
			writeValue(h, v.Field(i))
		}
	}
}
