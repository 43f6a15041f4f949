/** Matches texts with `*` for any characters, in linear time. */

/** The texts between the `*`. */
export const piecesOf = (text: string): readonly string[] => text.split("*");

/** Whether a text consists of these pieces in order, with any characters between them. */
export function hasPieces(text: string, pieces: readonly string[]): boolean {
  const first = pieces[0] ?? "";
  const last = pieces.at(-1) ?? "";
  if (pieces.length === 1) return text === first;
  if (text.length < first.length + last.length) return false;
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  let from = first.length;
  for (const piece of pieces.slice(1, -1)) {
    const at = text.indexOf(piece, from);
    if (at < 0) return false;
    from = at + piece.length;
  }
  return from + last.length <= text.length;
}
