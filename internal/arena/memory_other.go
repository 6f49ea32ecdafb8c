//go:build !linux || (!amd64 && !arm64)

package arena

import "os"

func createFile(string, int64) (*os.File, error)       { return nil, ErrUnsupported }
func openPath(string) (*os.File, error)                { return nil, ErrUnsupported }
func checkFile(*os.File) error                         { return ErrUnsupported }
func mapFile(*os.File, int64, bool) ([]byte, error)    { return nil, ErrUnsupported }
func unmapFile([]byte) error                           { return nil }
func (a *Arena) allocate(int64, int64) error           { return ErrUnsupported }
func (a *Arena) punch(int64, int64)                    {}
func (a *Arena) write([]byte, int64) error             { return ErrUnsupported }
func (a *Arena) Splice(int, *Word, int) (int, error)   { return 0, ErrUnsupported }
func (a *Arena) sendfile(int, *Word, int) (int, error) { return 0, ErrUnsupported }
