package proc

import "context"

// Abandonable runs f and returns its result, or the cause of ctx's end, whatever
// comes first; a result that comes too late goes to drop. The goroutine of a call
// that the kernel never answers cannot be waited for: nobody does.
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
