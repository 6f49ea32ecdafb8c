package proc

import "context"

// Abandonable runs f and returns its result, or the cause of ctx's end, whichever
// comes first. A result that comes too late is passed to drop. If the kernel never
// answers the call in f, its goroutine never ends, so no function waits for it.
func Abandonable[T any](ctx context.Context, f func() (T, error), drop func(T)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	result := make(chan outcome)
	go func() {
		value, err := f()
		select {
		case result <- outcome{value, err}:
		case <-ctx.Done():
			if err == nil {
				drop(value)
			}
		}
	}()
	select {
	case r := <-result:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
