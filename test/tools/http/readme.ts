/** Places the last recorded run between two marks in the README. */
const marks = ["<!-- bench:http -->", "<!-- /bench:http -->"] as const;

/** The text between the marks. */
export function lastShown(readme: string): string {
  const [start, end] = placeIn(readme);
  return readme.slice(start, end).trim();
}

export function withShown(readme: string, text: string): string {
  const [start, end] = placeIn(readme);
  return `${readme.slice(0, start)}\n\n${text}\n\n${readme.slice(end)}`;
}

function placeIn(readme: string): [number, number] {
  const [start, end] = marks.map((mark) => readme.indexOf(mark));
  if (start === undefined || end === undefined || start < 0 || end < start) {
    throw new Error(`the README has no ${marks.join(" … ")}`);
  }
  return [start + marks[0].length, end];
}
