package credential

import (
	"bytes"
	"encoding/base64"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

const value = "tok_Sup3rS3cretValue"

// shapes are the places in which a secret gets printed by accident.
func shapes() map[string]any {
	s := NewSecret([]byte(value), time.Unix(1, 0))
	type exported struct{ S Secret }
	type unexported struct {
		name string
		s    Secret
	}
	return map[string]any{
		"value":            s,
		"pointer":          &s,
		"field":            exported{s},
		"pointer to field": &exported{s},
		"unexported field": unexported{"x", s},
		"slice":            []Secret{s},
		"map":              map[string]Secret{"a": s},
		"pointer in slice": []*Secret{&s},
		"interface":        []any{s},
	}
}

// leaks reports how a text shows the secret: as it is, in hexadecimal, base64 or
// as numbers.
func leaks(text string) string {
	low := strings.ToLower(text)
	numbers := func(format string) string {
		var parts []string
		for _, b := range []byte(value)[:4] {
			parts = append(parts, fmt.Sprintf(format, b))
		}
		return strings.Join(parts, " ")
	}
	for how, form := range map[string]string{
		"plain":   strings.ToLower(value[4:]),
		"hex":     hex.EncodeToString([]byte(value[4:10])),
		"base64":  strings.ToLower(base64.StdEncoding.EncodeToString([]byte(value))[:12]),
		"decimal": numbers("%d"), "octal": numbers("%o"), "binary": numbers("%b"),
		"hex list": numbers("%#x"), "quoted list": numbers("'%c'"),
	} {
		if strings.Contains(low, form) || strings.Contains(strings.ReplaceAll(low, ",", ""), form) {
			return how
		}
	}
	return ""
}

func TestSecretNeverPrints(t *testing.T) {
	for shape, v := range shapes() {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%#x", "%d", "%o", "%b", "%c", "%U", "%e", "%t", "%100v", "%-5.2s", "%!"} {
			if how := leaks(fmt.Sprintf(verb, v)); how != "" {
				t.Errorf("%s of %s shows it (%s): %s", verb, shape, how, fmt.Sprintf(verb, v))
			}
		}
		if how := leaks(fmt.Sprint(v) + fmt.Sprintln(v) + fmt.Errorf("failed: %v", v).Error()); how != "" {
			t.Errorf("Sprint of %s shows it (%s)", shape, how)
		}
	}
}

func TestSecretIsNeverEncoded(t *testing.T) {
	for shape, v := range shapes() {
		var out bytes.Buffer
		data, err := json.Marshal(v)
		if err != nil {
			t.Errorf("JSON of %s: %v", shape, err)
		}
		out.Write(data)
		_ = xml.NewEncoder(&out).Encode(v) // maps are refused
		_ = gob.NewEncoder(&out).Encode(v) // interfaces are refused
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(h).Info("m", "secret", v, slog.Group("g", "secret", v))
		}
		if how := leaks(out.String()); how != "" {
			t.Errorf("%s encoded shows it (%s): %s", shape, how, &out)
		}
	}
}

// The tests above must be able to see a secret.
func TestLeaksAreSeen(t *testing.T) {
	b := []byte(value)
	for _, text := range []string{
		value, fmt.Sprintf("%x", b), fmt.Sprintf("%X", b), fmt.Sprint(b), fmt.Sprintf("%#v", b), fmt.Sprintf("%o", b),
		fmt.Sprintf("%b", b), base64.StdEncoding.EncodeToString(b), fmt.Sprintf("%+v", struct{ s []byte }{b}),
	} {
		if leaks(text) == "" {
			t.Errorf("not seen in %s", text)
		}
	}
}

func TestSecret(t *testing.T) {
	given := []byte(value)
	s := NewSecret(given, time.Time{})
	if string(s.Reveal()) != value || s.String() != "[secret]" || fmt.Sprintf("%5v|%s|%d", s, s, s) != "[secret]|[secret]|[secret]" {
		t.Errorf("%q, %v", s.Reveal(), s)
	}
	data, err := json.Marshal(s)
	if err != nil || string(data) != `"[secret]"` {
		t.Errorf("JSON: %s, %v", data, err)
	}
	again := s // a copy is the same secret
	s.Clear()
	if bytes.Contains(again.Reveal(), []byte("S3cret")) || bytes.Contains(given, []byte("S3cret")) {
		t.Errorf("after Clear: %q, %q", again.Reveal(), given)
	}
	var zero Secret
	zero.Clear()
	if len(zero.Reveal()) != 0 || zero.String() != "[secret]" {
		t.Errorf("the zero secret reveals %q", zero.Reveal())
	}
}
