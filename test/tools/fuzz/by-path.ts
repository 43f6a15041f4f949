/** Scenarios of paths that only some origins read as the protected path, for requests and for preflights. */
import type { Draw } from "./draw.ts";
import { anyCase, percentEncoded, nameOf } from "./people.ts";
import { charge, longWindow, type Scenario } from "./scenarios.ts";

const few = 8;

/** Texts that at least one origin reads as one slash. */
const separators = ["/", "/", "//", "/./", "/%2e/", "%2f", "%2F", "%5c", "\\", "/x/..%2f", "/%2e%2F"];
/** Endings that at least one origin removes. */
const endings = ["", "", "/", "//", "%2f", "%5C", "/.", "/x%2f.."];

/** A path of two segments. The spelling keeps the case of the second segment. */
function leniently(draw: Draw, folder: string, name: string): string {
  const parameters = (): string => draw.one(["", "", "", ";", ";p=1", ";P=%41;q"]);
  // Origins disagree about parameters after an encoded slash. Such paths share one key.
  const between = draw.one(separators);
  const first = between.startsWith("%") ? "" : parameters();
  const literal = percentEncoded(draw, anyCase(draw, folder));
  const named = percentEncoded(draw, name);
  return [
    ["/", draw.one(separators), literal, first],
    [between, named, parameters(), draw.one(endings)],
  ]
    .flat()
    .join("");
}

const spelled: Scenario = {
  name: "spelled",
  policies: [
    {
      name: "spelled",
      match: { path: "/spelled/:name" },
      key: "path",
      limits: { limit: few, window: longWindow, strategy: "fixed-window" },
      objects: "sharded",
      shards: 4,
    },
  ],
  draw: (draw) => {
    const name = nameOf(draw);
    return {
      target: leniently(draw, "spelled", name),
      charges: [charge("spelled", `/spelled/${name}`, few)],
    };
  },
};

const announced = ["POST", "PUT", "put", "DELETE"] as const;

/** Every preflight comes from an address that the policy for the announced request denies. */
const preflight: Scenario = {
  name: "preflight",
  policies: [
    {
      name: "preflight",
      match: {
        path: "/preflight/*",
        methods: ["POST", "PUT", "DELETE"],
        header: { "X-Plan": "free" },
      },
      key: "jwt:sub",
      limits: "1000000/hour",
      deny: ["203.0.113.0/24"],
    },
  ],
  draw: (draw) => ({
    target: leniently(draw, "preflight", nameOf(draw)),
    method: "OPTIONS",
    lines: [
      `CF-Connecting-IP: 203.0.113.${draw.below(256)}`,
      "Origin: https://app.example",
      `Access-Control-Request-Method: ${draw.one(announced)}`,
      `Access-Control-Request-Headers: ${draw.one(["x-plan", "content-type, X-Plan", ", x-PLAN ,"])}`,
    ],
    charges: [],
    isBarred: true,
  }),
};

export const byPath: readonly Scenario[] = [spelled, preflight];
