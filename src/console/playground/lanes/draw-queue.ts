/** Draws the lanes one after the other, each in a task of its own, so that the page answers to input meanwhile. */

const waiting = new Set<() => void>();

/** Returns a function that leaves the drawing out if it has not begun. */
export function drawLater(draw: () => void): () => void {
  waiting.add(draw);
  if (waiting.size === 1) setTimeout(drawNext);
  return () => waiting.delete(draw);
}

function drawNext(): void {
  const [draw] = waiting;
  if (draw === undefined) return;
  waiting.delete(draw);
  if (waiting.size > 0) setTimeout(drawNext);
  draw();
}
