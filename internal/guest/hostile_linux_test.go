package guest

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"strings"
	"testing"
)

// frames joins frames to what a peer sends.
func frames(list ...[]byte) []byte { return bytes.Join(list, nil) }

func ourHello() []byte {
	return appendFrame(nil, kindHello, 0, 0, encodeHello(Hello{Version: Version}))
}

func startOf(argv ...string) []byte {
	return encodeStart(start{command: Command{Argv: argv}, stdout: maxWindow, stderr: maxWindow})
}

// dialog is a stream that plays what a peer sends and takes what it is told.
type dialog struct {
	io.Reader
	io.Writer
}

func (dialog) Close() error { return nil }

// TestHostileOuter: whatever breaks the protocol ends Serve with an error that
// says what.
func TestHostileOuter(t *testing.T) {
	h := appendFrame
	opened := frames(ourHello(), h(nil, kindStart, 0, 1, startOf("cat")))
	part := bytes.Repeat([]byte{1}, maxPayload)
	for name, c := range map[string]struct {
		bytes []byte
		want  string // part of the error; "" for none
	}{
		"control: nothing":            {nil, ""},
		"control: hello":              {ourHello(), ""},
		"control: start and input":    {frames(opened, h(nil, kindData, 0, 1, []byte("x")), h(nil, kindEnd, 0, 1, nil)), ""},
		"control: unknown program":    {frames(ourHello(), h(nil, kindStart, 0, 1, startOf("none"))), ""},
		"control: gap in the numbers": {frames(ourHello(), h(nil, kindStart, 0, 9, startOf("cat"))), ""},
		"control: lane that ended":    {frames(opened, h(nil, kindEnd, 0, 1, nil), h(nil, kindReset, 1, 1, nil), h(nil, kindFreeze, 0, 1, nil)), ""},

		"no hello":            {h(nil, kindFreeze, 0, 1, nil), "before the hello"},
		"other version":       {h(nil, kindHello, 0, 0, encodeNumbers(2)), "version 2"},
		"empty hello":         {h(nil, kindHello, 0, 0, nil), "too early"},
		"second hello":        {frames(ourHello(), ourHello()), "frame kind 1"},
		"hello of a channel":  {h(nil, kindHello, 0, 1, encodeHello(Hello{Version: Version})), "before the hello"},
		"kind 0":              {frames(ourHello(), make([]byte, headerSize)), "unknown kind"},
		"kind 255":            {frames(ourHello(), h(nil, 255, 0, 1, nil)), "unknown kind"},
		"guest's kind":        {frames(opened, h(nil, kindExit, 0, 1, encodeExit(Exit{}))), "from outside"},
		"flags":               {frames(ourHello(), h(nil, kindFreeze, 1, 1, nil)), "flags"},
		"high flags":          {frames(opened, h(nil, kindData, 0x80, 1, []byte("x"))), "flags"},
		"lane 3":              {frames(opened, h(nil, kindData, 3, 1, []byte("x"))), "flags"},
		"too long":            {frames(ourHello(), []byte{byte(kindData), 0, 0xff, 0xff, 0, 0, 0, 1}), "65535 bytes"},
		"half a header":       {frames(ourHello(), []byte{1, 2}), "within a frame"},
		"half a payload":      {frames(ourHello(), []byte{byte(kindData), 0, 0, 9, 0, 0, 0, 1, 5}), "within a frame"},
		"channel 0":           {frames(ourHello(), h(nil, kindStart, 0, 0, startOf("cat"))), "not new"},
		"channel twice":       {frames(opened, h(nil, kindStart, 0, 1, startOf("cat"))), "not new"},
		"channel never made":  {frames(opened, h(nil, kindData, 0, 2, []byte("x"))), "never opened"},
		"input of output":     {frames(opened, h(nil, kindData, 1, 1, []byte("x"))), "for lane 1"},
		"credit for input":    {frames(opened, h(nil, kindCredit, 0, 1, encodeNumbers(1))), "for lane 0"},
		"credit without end":  {frames(opened, h(nil, kindCredit, 1, 1, encodeNumbers(maxWindow))), "credit of"},
		"credit of nothing":   {frames(opened, h(nil, kindCredit, 1, 1, encodeNumbers(0))), "credit of 0"},
		"empty data":          {frames(opened, h(nil, kindData, 0, 1, nil)), "empty data"},
		"data after end":      {frames(ourHello(), h(nil, kindStart, 0, 1, startOf("hold")), h(nil, kindEnd, 0, 1, nil), h(nil, kindData, 0, 1, []byte("x"))), "after the end"},
		"end with bytes":      {frames(opened, h(nil, kindEnd, 0, 1, []byte("x"))), "for lane 0"},
		"more than credit":    {frames(ourHello(), h(nil, kindStart, 0, 1, startOf("hold")), bytes.Repeat(h(nil, kindData, 0, 1, part), 5)), "has credit for"},
		"broken start":        {frames(ourHello(), h(nil, kindStart, 0, 1, []byte("x"))), "read start"},
		"start without lanes": {frames(ourHello(), h(nil, kindStart, 0, 1, encodeStart(start{command: Command{Argv: []string{"cat"}}}))), "lanes do not fit"},
		"small window":        {frames(ourHello(), h(nil, kindStart, 0, 1, encodeStart(start{command: Command{Argv: []string{"cat"}}, stdout: 1, stderr: 1}))), "too small"},
		"descriptors":         {frames(ourHello(), h(nil, kindStart, flagDescriptors, 1, encodeStart(start{descriptors: true}))), "none are allowed"},
		"descriptors unsaid":  {frames(ourHello(), h(nil, kindStart, 0, 1, encodeStart(start{descriptors: true}))), "0 descriptors"},
		"parts of two":        {frames(ourHello(), h(nil, kindStart, flagMore, 1, part), h(nil, kindStart, 0, 2, part)), "within that of 1"},
		"empty part":          {frames(ourHello(), h(nil, kindStart, flagMore, 1, part), h(nil, kindStart, flagMore, 1, nil)), "empty part"},
		"parts without end":   {frames(ourHello(), bytes.Repeat(h(nil, kindStart, flagMore, 1, part), maxMessage/maxPayload+1)), "start of more than"},
		"broken signal":       {frames(opened, h(nil, kindSignal, 0, 1, []byte{1})), "read signal"},
		"freeze with bytes":   {frames(ourHello(), h(nil, kindFreeze, 0, 1, []byte{1})), "read freeze"},
		"call twice":          {frames(ourHello(), h(nil, kindFreeze, 0, 1, nil), h(nil, kindFreeze, 0, 1, nil)), "call 1 is not new"},
		"broken identity":     {frames(ourHello(), h(nil, kindIdentify, 0, 1, []byte{9})), "read identity"},
		"port 65536":          {frames(ourHello(), h(nil, kindDial, 0, 1, encodeNumbers(1<<16, maxWindow))), "read dial"},
		"port without window": {frames(ourHello(), h(nil, kindDial, 0, 1, encodeNumbers(80, 0))), "without a window"},
	} {
		t.Run(name, func(t *testing.T) {
			block := make(chan struct{})
			defer close(block)
			handler := &fake{
				programs: map[string]func(*fakeProgram){"cat": cat, "hold": func(*fakeProgram) {}},
				freeze:   func() error { <-block; return nil },
			}
			err := Serve(Stream{ReadWriteCloser: dialog{bytes.NewReader(c.bytes), io.Discard}}, Hello{}, handler)
			checkError(t, err, c.want)
		})
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Error(err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%v, want: %s", err, want)
	}
}

// TestHostileGuest does the same to a client that has started a program on
// channel 1, with a call on its way.
func TestHostileGuest(t *testing.T) {
	h := appendFrame
	started := frames(ourHello(), h(nil, kindStarted, 0, 1, encodeNumbers(5, maxWindow)))
	exit := h(nil, kindExit, 0, 1, encodeExit(Exit{}))
	for name, c := range map[string]struct {
		bytes []byte
		want  string
	}{
		"control: closed":       {nil, errGone.Error()},
		"control: exit":         {frames(started, exit), errGone.Error()},
		"control: output":       {frames(started, h(nil, kindData, 1, 1, []byte("x")), h(nil, kindEnd, 1, 1, nil), h(nil, kindReset, 2, 1, nil)), errGone.Error()},
		"control: early output": {frames(ourHello(), h(nil, kindData, 1, 1, []byte("x")), h(nil, kindStarted, 0, 1, encodeNumbers(5, maxWindow))), errGone.Error()},
		"control: refused":      {frames(ourHello(), h(nil, kindRefused, 0, 1, encodeError("a", io.EOF))), errGone.Error()},
		"control: call done":    {frames(ourHello(), h(nil, kindDone, 0, 1, nil)), errGone.Error()},

		"no hello":           {exit, "before the hello"},
		"other version":      {h(nil, kindHello, 0, 0, encodeNumbers(77)), "version 77, this one 1"},
		"second hello":       {frames(ourHello(), ourHello()), "frame kind 1"},
		"failed":             {h(nil, kindHello, 0, 0, encodeHello(Hello{Version: Version, Failed: "why", Step: "mount"})), "set up sandbox: mount: why"},
		"outer side's kind":  {frames(started, h(nil, kindSignal, 0, 1, nil)), "from the guest"},
		"a start":            {frames(started, h(nil, kindStart, 0, 2, startOf("a"))), "from the guest"},
		"exit before start":  {frames(ourHello(), exit), "no running program"},
		"second exit":        {frames(started, exit, exit), "no running program"},
		"stop after exit":    {frames(started, exit, h(nil, kindStopped, 0, 1, nil)), "no running program"},
		"stop with bytes":    {frames(started, h(nil, kindStopped, 0, 1, []byte("x"))), "stop of"},
		"broken exit":        {frames(started, h(nil, kindExit, 0, 1, []byte{1})), "read exit"},
		"second answer":      {frames(started, h(nil, kindStarted, 0, 1, encodeNumbers(5, maxWindow))), "second answer"},
		"refused after all":  {frames(started, h(nil, kindRefused, 0, 1, encodeError("a", io.EOF))), "second answer"},
		"wrong answer":       {frames(ourHello(), h(nil, kindDialed, 0, 1, encodeNumbers(maxWindow))), "answer kind"},
		"no window":          {frames(ourHello(), h(nil, kindStarted, 0, 1, encodeNumbers(5, 0))), "window of 0"},
		"broken answer":      {frames(ourHello(), h(nil, kindStarted, 0, 1, nil)), "read answer"},
		"broken refusal":     {frames(ourHello(), h(nil, kindRefused, 0, 1, []byte{5})), "read error"},
		"unknown channel":    {frames(started, h(nil, kindData, 1, 7, []byte("x"))), "never opened"},
		"unknown answer":     {frames(started, h(nil, kindStarted, 0, 7, encodeNumbers(5, maxWindow))), "never opened"},
		"output of input":    {frames(started, h(nil, kindData, 0, 1, []byte("x"))), "for lane 0"},
		"more than credit":   {frames(started, bytes.Repeat(h(nil, kindData, 1, 1, make([]byte, maxPayload)), 5)), "has credit for"},
		"credit without end": {frames(started, h(nil, kindCredit, 0, 1, encodeNumbers(1))), "credit of 1"},
		"data after end":     {frames(started, h(nil, kindEnd, 1, 1, nil), h(nil, kindData, 1, 1, []byte("x"))), "after the end"},
		"call never made":    {frames(started, h(nil, kindDone, 0, 9, nil)), "was not made"},
		"call done twice":    {frames(started, h(nil, kindDone, 0, 1, nil), h(nil, kindDone, 0, 1, nil)), "was not made"},
		"done with bytes":    {frames(started, h(nil, kindDone, 0, 1, []byte("x"))), "answer of"},
		"broken failure":     {frames(started, h(nil, kindFailed, 0, 1, []byte("x"))), "read error"},
		"half a frame":       {frames(started, []byte{1}), "within a frame"},
		"unknown kind":       {frames(started, h(nil, 99, 0, 1, nil)), "unknown kind"},
	} {
		t.Run(name, func(t *testing.T) {
			playGuest(t, c.bytes, func(c *Client) { checkStays(t, c) }).check(t, c.want)
		})
	}
}

// played is how a client fared with a guest that says what it likes.
type played struct{ err error }

func (p played) check(t *testing.T, want string) { t.Helper(); checkError(t, p.err, want) }

// playGuest has a client start a program and make a call, and then hear p.
func playGuest(t testing.TB, p []byte, after func(*Client)) played {
	t.Helper()
	r, w := io.Pipe()
	c := Open(Stream{ReadWriteCloser: dialog{r, io.Discard}})
	go func() { _, _ = c.Start(context.Background(), Command{Argv: []string{"a"}}) }()
	go func() { _ = c.Thaw(context.Background()) }()
	for known := false; !known; runtime.Gosched() {
		c.link.mu.Lock()
		c.mu.Lock()
		known = c.last == 1 && c.lastCall == 1
		c.mu.Unlock()
		c.link.mu.Unlock()
	}
	_, _ = w.Write(p) // fails when the client has heard enough
	_ = w.Close()
	go func() { // and the client may read on
		_, _ = io.Copy(io.Discard, r)
	}()
	<-c.Done()
	after(c)
	return played{c.Err()}
}

// checkStays checks that nothing hangs on a stream that has ended.
func checkStays(t *testing.T, c *Client) {
	t.Helper()
	if err := c.Freeze(context.Background()); err == nil {
		t.Error("a call on a stream that has ended")
	}
	if _, err := c.DialPort(context.Background(), 1); err == nil {
		t.Error("a connection on a stream that has ended")
	}
}
