/** Texts with `*` for any characters, compared in time linear in the text's length. */

/** What stands between the `*` of a text. */
export const piecesOf = (text: string): readonly string[] => text.split("*");

/** Whether a text consists of these pieces in their order, with anything in between. */
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
