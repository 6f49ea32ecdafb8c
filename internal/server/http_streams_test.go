package server

import (
	"fmt"
	"testing"
)

func TestHTTPStreamsAreBounded(t *testing.T) {
	var s httpStreams
	for i := range maxStreams {
		if err := s.begin(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	err := s.begin("more")
	if err == nil {
		t.Fatal("there is no limit")
	}
	if got := wireError(err); got.Code != -32600 || got.Message != fmt.Sprintf("limit reached: %d streamed responses", maxStreams) {
		t.Errorf("refused with %+v", got)
	}
	s.end("0")
	if err := s.begin("more"); err != nil {
		t.Error(err)
	}
}
