package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCodec(t *testing.T) {
	var e Encoder
	e.Uint(0)
	e.Uint(1<<64 - 1)
	e.Int(-1 << 63)
	e.Int(1<<63 - 1)
	e.Bool(true)
	e.Bool(false)
	e.Bytes([]byte{0, 255})
	e.Bytes(nil)
	e.String("\xff\x00ä")
	e.Strings([]string{"", "a", "\x80"})
	e.Strings(nil)
	d := NewDecoder(e.Data())
	got := []any{
		d.Uint(), d.Uint(), d.Int(), d.Int(), d.Bool(), d.Bool(),
		d.Bytes(2), d.Bytes(0), d.String(4), d.Strings(3), d.Strings(0),
	}
	want := []any{
		uint64(0), uint64(1<<64 - 1), int64(-1 << 63), int64(1<<63 - 1), true, false,
		[]byte{0, 255},
		[]byte(nil), "\xff\x00ä",
		[]string{"", "a", "\x80"},
		[]string(nil),
	}
	if err := d.Finish(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecoderRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		bytes string
		take  func(*Decoder)
		want  error
	}{
		"nothing":              {"", func(d *Decoder) { d.Uint() }, errShort},
		"half a number":        {"\x80", func(d *Decoder) { d.Uint() }, errShort},
		"long form":            {"\x80\x00", func(d *Decoder) { d.Uint() }, errVarint},
		"more than 64 bits":    {strings.Repeat("\xff", 10) + "\x01", func(d *Decoder) { d.Uint() }, errVarint},
		"number over limit":    {"\x05", func(d *Decoder) { d.UintMax(4) }, errTooLong},
		"truth of 2":           {"\x02", func(d *Decoder) { d.Bool() }, errBool},
		"string over limit":    {"\x02ab", func(d *Decoder) { _ = d.String(1) }, errTooLong},
		"string over input":    {"\x03ab", func(d *Decoder) { _ = d.String(9) }, errShort},
		"length of 2^64-1":     {strings.Repeat("\xff", 9) + "\x01", func(d *Decoder) { d.Bytes(1 << 62) }, errTooLong},
		"list over limit":      {"\x02\x00\x00", func(d *Decoder) { d.Strings(1) }, errTooLong},
		"list over input":      {"\x03\x00\x00", func(d *Decoder) { d.Strings(9) }, errShort},
		"entry over input":     {"\x02\x00\x05", func(d *Decoder) { d.Strings(9) }, errTooLong},
		"bytes left":           {"\x01\x01", func(d *Decoder) { d.Uint() }, errTrailing},
		"the first error":      {"\x02\x80", func(d *Decoder) { d.Bool(); d.Uint() }, errBool},
		"control: all is well": {"\x02ab", func(d *Decoder) { _ = d.String(2) }, nil},
	} {
		d := NewDecoder([]byte(c.bytes))
		c.take(d)
		if err := d.Finish(); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if d.Uint() != 0 || d.Bool() || d.String(1) != "" || d.Bytes(1) != nil || d.Strings(1) != nil {
			t.Errorf("%s: something came after the end", name)
		}
	}
}

func TestMessages(t *testing.T) {
	long := bytes.Repeat([]byte{0, 1, 255}, 100_000)
	var stream bytes.Buffer
	for _, p := range [][]byte{nil, []byte("x"), long} {
		if err := WriteMessage(&stream, p); err != nil {
			t.Fatal(err)
		}
	}
	stream.WriteString("beyond")
	r := iotest.OneByteReader(&stream)
	for _, want := range [][]byte{nil, []byte("x"), long} {
		got, err := ReadMessage(r, len(long))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, %v; want %d", len(got), err, len(want))
		}
	}
	if rest, _ := io.ReadAll(&stream); string(rest) != "beyond" {
		t.Errorf("what follows is %q", rest)
	}
	for name, c := range map[string]struct {
		bytes string
		limit int
		want  error
	}{
		"end":              {"", 1, io.EOF},
		"end in length":    {"\x00\x00", 1, io.ErrUnexpectedEOF},
		"end before bytes": {"\x00\x00\x00\x02", 2, io.ErrUnexpectedEOF},
		"end in bytes":     {"\x00\x00\x00\x02x", 2, io.ErrUnexpectedEOF},
		"over limit":       {"\x00\x00\x00\x02xx", 1, errTooLong},
		"negative limit":   {"\x00\x00\x00\x01x", -1, errTooLong},
	} {
		if p, err := ReadMessage(strings.NewReader(c.bytes), c.limit); err != c.want {
			t.Errorf("%s: %q, %v; want %v", name, p, err, c.want)
		}
	}
}

// TestAnnouncedLength checks that a length costs nothing until its bytes come.
func TestAnnouncedLength(t *testing.T) {
	head := binary.BigEndian.AppendUint32(nil, 1<<31)
	n := testing.AllocsPerRun(1, func() {
		if _, err := ReadMessage(bytes.NewReader(head), 1<<31); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
	})
	if n > 10 {
		t.Errorf("%v allocations", n)
	}
}

func TestMessageRoundTrips(t *testing.T) {
	hello := Hello{Version, "box", 1 << 63, 1, "failed", "step", -5}
	if got, err := decodeHello(encodeHello(hello)); err != nil || got != hello {
		t.Errorf("%+v, %v", got, err)
	}
	exit := Exit{-1, 9, true}
	if got, err := decodeExit(encodeExit(exit)); err != nil || got != exit {
		t.Errorf("%+v, %v", got, err)
	}
	for _, when := range []time.Time{{}, time.Unix(1<<40, 999_999_999).UTC()} {
		identity := Identity{"box", 2, when, []byte("e"), "h"}
		got, err := decodeIdentity(encodeIdentity(identity))
		if err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(identity, got); d != "" {
			t.Error(d)
		}
	}
}

// FuzzDecoder gives hostile bytes to every message: none may panic, and what is
// taken must be the one encoding of what it means.
func FuzzDecoder(f *testing.F) {
	f.Add(encodeHello(Hello{Version: Version, Sandbox: "a"}))
	f.Add(encodeExit(Exit{Code: 3}))
	f.Add(encodeIdentity(Identity{Entropy: []byte("0123")}))
	f.Add(encodeStart(start{command: Command{Argv: []string{"a", "\xff"}, Terminal: &Size{1, 2}}, stdout: minWindow}))
	f.Add(encodeError("s", &StartError{"exec", 2, "t"}))
	f.Fuzz(func(t *testing.T, p []byte) {
		same := func(what string, again []byte, err error) {
			if err == nil && !bytes.Equal(again, p) {
				t.Errorf("%s: %x became %x", what, p, again)
			}
		}
		if h, err := decodeHello(p); h.Version == Version {
			same("hello", encodeHello(h), err)
		}
		x, err := decodeExit(p)
		same("exit", encodeExit(x), err)
		i, err := decodeIdentity(p)
		same("identity", encodeIdentity(i), err)
		s, err := decodeStart(p)
		same("start", encodeStart(s), err)
		if e, err := decodeError(p); err == nil {
			same("error", encodeError("", e), nil)
		}
		got, err := ReadMessage(bytes.NewReader(p), len(p))
		if err == nil && !bytes.HasPrefix(p[4:], got) {
			t.Errorf("message %x of %x", got, p)
		}
	})
}
