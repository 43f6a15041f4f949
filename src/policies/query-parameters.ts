/** Parameters of a query, in every form in which an origin may read them. */

/**
 * The values of a parameter, in all forms of its name and decoded once. Some frameworks ignore the case of a name; Rails,
 * PHP and Express read `rows[]`, `rows[0]` and `[rows]` as `rows`, PHP `page.size` as `page_size`. A `;` separates
 * parameters for some and is part of a value for others: the values of both are in the list.
 */
export function parameterValues({ search }: URL, name: string): string[] {
  const wanted = comparable(name);
  const readings = search.includes(";") ? [search, search.replaceAll(";", "&")] : [search];
  return readings.flatMap((reading) =>
    Array.from(new URLSearchParams(reading))
      .filter(([written]) => isReadAs(comparable(written), wanted))
      .map(([, value]) => value),
  );
}

/** A name without what precedes or ends it in some frameworks, and without its case: "ſ" is "S" in upper case. */
const comparable = (name: string): string =>
  name
    .replace(/\0[^]*$/, "")
    .replace(/^[\s[\]]+/, "")
    .toUpperCase()
    .toLowerCase();

function isReadAs(name: string, wanted: string): boolean {
  if (name.startsWith(wanted) && /^(?:$|[[\]])/.test(name.slice(wanted.length))) return true;
  return underscored(name) === underscored(wanted);
}

/** PHP reads these characters in a name as underscores. */
const underscored = (name: string): string => name.replace(/[ .[]/g, "_");
