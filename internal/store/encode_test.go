//go:build linux

package store

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caisson-dev/caisson/api"
)

// fill sets every field of v that chance picks, to something that a careless
// encoder would get wrong.
func fill(v reflect.Value, chance func() bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if chance() {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), chance)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			if chance() {
				v.Set(reflect.ValueOf(time.Unix(rand.Int64N(1e9), rand.Int64N(1e9)).UTC()))
			}
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), chance)
		}
	case reflect.Slice:
		if chance() {
			v.Set(reflect.MakeSlice(v.Type(), 3, 3))
			for i := range v.Len() {
				fill(v.Index(i), chance)
			}
		}
	case reflect.Map:
		if chance() {
			v.Set(reflect.MakeMap(v.Type()))
			for _, key := range []string{"b", "a", "", "\xff<"} {
				value := reflect.New(v.Type().Elem()).Elem()
				fill(value, chance)
				v.SetMapIndex(reflect.ValueOf(key), value)
			}
		}
	case reflect.String:
		if chance() {
			v.SetString([]string{"plain", "\x00\x1f\x7f\"\\\n\r\t\b\f", "<&>", "\u2028\u2029", "\xff\xc3(", "ä漢🙂\ufffd"}[rand.IntN(6)])
		}
	case reflect.Int, reflect.Int64:
		if chance() {
			v.SetInt(rand.Int64() - 1<<62)
		}
	case reflect.Uint64:
		if chance() {
			v.SetUint(rand.Uint64())
		}
	case reflect.Uint8:
		if chance() {
			v.SetUint(uint64(rand.IntN(3)))
		}
	case reflect.Bool:
		v.SetBool(chance())
	default:
		panic("the encoder knows no " + v.Type().String())
	}
}

// TestEncodesAsJSONDoes: also a field that was added to the API since.
func TestEncodesAsJSONDoes(t *testing.T) {
	compare := func(v any, got []byte, err error) {
		t.Helper()
		want, wantErr := json.Marshal(v)
		if (err == nil) != (wantErr == nil) || err == nil && string(got) != string(want) {
			t.Fatalf("encoded\n%s, %v, want\n%s, %v", got, err, want, wantErr)
		}
	}
	for round := range 2000 {
		chance := func() bool { return round == 0 || round > 1 && rand.IntN(2) == 0 } // all, nothing, some
		var rec api.Sandbox
		var e api.Event
		fill(reflect.ValueOf(&rec).Elem(), chance)
		fill(reflect.ValueOf(&e).Elem(), chance)
		got, err := encodeRecord(&rec)
		compare(rec, got, err)
		got, err = encodeEvent(&e)
		compare(e, got, err)
	}
	far := api.Sandbox{Created: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)}
	got, err := encodeRecord(&far)
	compare(far, got, err)
	unknown := api.Event{Decision: &api.Decision{Action: 9}}
	got, err = encodeEvent(&unknown)
	compare(unknown, got, err)
	if err == nil {
		t.Error("an unknown action was encoded")
	}
}

func FuzzText(f *testing.F) {
	f.Add("\u2028<\xff")
	f.Fuzz(func(t *testing.T, s string) {
		want, err := json.Marshal(s)
		if got := appendText(nil, s); err != nil || string(got) != string(want) {
			t.Errorf("%q is encoded %s, want %s", s, got, want)
		}
	})
}

func BenchmarkEncodeEvent(b *testing.B) {
	e := api.Event{Seq: 1, Time: time.Now(), Sandbox: "abcdefghij", Kind: api.EventDecision, Previous: strings.Repeat("0", 64), Decision: &api.Decision{Target: "api.example.org:443", Reason: "it is listed"}}
	for b.Loop() {
		if _, err := encodeEvent(&e); err != nil {
			b.Fatal(err)
		}
	}
}
