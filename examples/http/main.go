// Http fetches a web page from the network of the executor.
package main

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
	"github.com/tetherexec/tether/examples/internal/executor"
)

func main() {
	page := ""
	if len(os.Args) > 1 {
		page = os.Args[1]
	}
	if err := run(context.Background(), page); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, page string) error {
	if page == "" { // by default, a web server of this program, for an executor on this machine
		site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "a page that the executor can see")
		}))
		defer site.Close()
		page = site.URL
	}
	url, stop, err := executor.Start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	c, err := client.Dial(ctx, url, client.Options{Name: "example"})
	if err != nil {
		return err
	}
	defer c.Close()

	browser := http.Client{Transport: web.Of(c)}
	resp, err := browser.Get(page)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	_, err = io.Copy(os.Stdout, resp.Body)
	return err
}
