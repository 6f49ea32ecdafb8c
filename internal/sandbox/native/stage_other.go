//go:build linux && !amd64 && !arm64

package native

func stageText() ([]byte, error) { return nil, errNoStage }
