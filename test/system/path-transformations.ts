/** Ways to spell a path that at least one origin server normalizes. */

/** Returns another spelling of a path. */
type Transformation = (path: string) => string;

const lastSegment = /[^/\\]*$/;
const encodedLetter = (letter: string): string => `%${letter.charCodeAt(0).toString(16)}`;

const inEachCase: Transformation = (path) =>
  path.replace(/%[0-9a-f]{2}|[a-z]/gi, (each) => (each.length === 1 ? each.toUpperCase() : each));

/** Transformations by name. */
export const transformations: ReadonlyMap<string, Transformation> = new Map([
  ["case", inEachCase],
  ["trailing slash", (path) => `${path}/`],
  ["doubled first slash", (path) => path.replace("/", "//")],
  ["doubled last slash", (path) => path.replace(/\/(?=[^/]*$)/, "//")],
  ["encoded first slash", (path) => path.replace("/", "/%2f")],
  ["encoded last slash", (path) => (path.lastIndexOf("/") > 0 ? path.replace(/\/(?=[^/]*$)/, "%2F") : path)],
  ["appended encoded slash", (path) => `${path}%2f`],
  ["encoded first letter", (path) => path.replace(/[a-z]/i, encodedLetter)],
  ["encoded last letter", (path) => path.replace(/[a-z](?=[^a-z]*$)/i, encodedLetter)],
  ["plain dot segments before", (path) => `/x/..${path}`],
  ["encoded dot segments before", (path) => `/x/%2e%2e${path}`],
  ["dot segments with encoded slashes before", (path) => `/x%2f..%2f${path.slice(1)}`],
  ["a dot segment with an encoded slash before", (path) => `/%2e%2f${path.slice(1)}`],
  ["plain dot segments after", (path) => `${path}/x/..`],
  ["encoded dot segments after", (path) => `${path}/x/%2e%2E`],
  ["dot segments with encoded slashes after", (path) => `${path}%2fx%2f..`],
  ["dot segments that stay in a segment", (path) => `${path}%2F..%2F..%2Fb`],
  ["first slash as backslash", (path) => path.replace("/", "/\\")],
  ["last slash as backslash", (path) => path.replace(/.\/(?=[^/]*$)/, (each) => each.replace("/", "\\"))],
  ["encoded backslash", (path) => path.replace(lastSegment, (each) => `${each}%5cx`)],
  ["encoded backslash before dot segments", (path) => `/x%5cy%2f..${path}`],
  ["parameters", (path) => `${path};v=1`],
  ["parameters of the first segment", (path) => path.replace(/[^/]+/, (each) => `${each};v=1`)],
  ["parameters with an encoded slash before", (path) => `/x;%2f..${path}`],
  ["trailing dot", (path) => `${path}.`],
  ["trailing space", (path) => `${path}%20`],
  [
    "double encoding",
    (path) => path.replace(/%|[a-z](?=[^a-z]*$)/i, (each) => `%25${each === "%" ? "" : encodedLetter(each).slice(1)}`),
  ],
]);

export interface Composed {
  readonly names: string;
  readonly path: string;
}

/** The path itself, each transformation of it, and each pair of different transformations. */
export function compositionsOf(path: string): Composed[] {
  const all = [...transformations];
  return [
    { names: "none", path },
    ...all.map(([name, change]) => ({ names: name, path: change(path) })),
    ...all.flatMap(([first, change]) =>
      all.map(([second, changeAgain]) => ({
        names: `${first}, then ${second}`,
        path: changeAgain(change(path)),
      })),
    ),
  ];
}
