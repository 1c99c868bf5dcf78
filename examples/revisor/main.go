// Command revisor serves an agent that counts what a text consists of: its card, JSON-RPC and REST at
// http://127.0.0.1:41241, gRPC at 127.0.0.1:41242.
package main

import (
	"context"
	"log"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/examples/revisor/textstats"
)

func main() {
	err := parley.ListenAndServe(context.Background(), parley.Config{
		Name:               textstats.Name,
		Description:        textstats.Description,
		Version:            textstats.Version,
		Skills:             textstats.Skills(),
		DefaultInputModes:  textstats.InputModes(),
		DefaultOutputModes: textstats.OutputModes(),
	}, textstats.Agent{})
	if err != nil {
		log.Fatal(err)
	}
}
