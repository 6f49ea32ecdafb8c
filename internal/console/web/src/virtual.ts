// Which rows of a long list have to exist: those that are seen, and some around them.

export interface Span {
  from: number;
  to: number; // exclusive
}

/** The offsets of rows of given heights, and of the end. */
export function offsetsOf(heights: readonly number[]): number[] {
  const offsets = new Array<number>(heights.length + 1);
  let at = 0;
  for (let i = 0; i < heights.length; i++) {
    offsets[i] = at;
    at += heights[i]!;
  }
  offsets[heights.length] = at;
  return offsets;
}

/** The rows that are seen between two heights, with some more on each side. */
export function visibleSpan(offsets: readonly number[], top: number, height: number, margin: number): Span {
  const rows = offsets.length - 1;
  const from = Math.max(0, rowAt(offsets, top) - margin);
  const to = Math.min(rows, rowAt(offsets, top + height) + 1 + margin);
  return { from, to: Math.max(from, to) };
}

/** The row at a height. */
export function rowAt(offsets: readonly number[], y: number): number {
  let low = 0;
  let high = Math.max(0, offsets.length - 2);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (offsets[middle]! <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}
