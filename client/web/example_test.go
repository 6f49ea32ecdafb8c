package web_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/web"
	"github.com/tetherexec/tether/internal/tethertest"
)

func ExampleOf() {
	url, stop := tethertest.ExampleServer()
	defer stop()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "you want", r.URL.Path)
	}))
	defer site.Close()

	c, err := client.Dial(context.Background(), url, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	browser := http.Client{Transport: web.Of(c)}
	resp, err := browser.Get(site.URL + "/page")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	io.Copy(os.Stdout, resp.Body)
	// Output: you want /page
}
