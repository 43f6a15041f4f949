import { describe, expect, it } from "vitest";
import { configOf, placesOf, problemsIn } from "./parsed.ts";

type Fields = Readonly<Record<string, unknown>>;

const policy = { name: "a", limits: "1/s" };

const parsed = (fields: Fields): object => configOf({ POLICIES: [{ ...policy, ...fields }] }).policies[0] ?? {};

const problemsWith = (fields: Fields): unknown[] => [
  ...problemsIn({ KEY_SECRET: "s", POLICIES: [{ ...policy, ...fields }] }),
];

describe("the fields that determine the object of a key", () => {
  const nowhere = { locationHint: null, jurisdiction: null };

  it.for<[Fields, number | null]>([
    [{}, null],
    [{ objects: "per-key" }, null],
    [{ objects: "sharded" }, 32],
    [{ objects: "sharded", shards: 1 }, 1],
    [{ objects: "sharded", shards: 4096 }, 4096],
  ])("the fields %j give the number of shards %j", ([fields, shards]) => {
    expect(parsed(fields)).toMatchObject({ objects: { shards, ...nowhere } });
  });

  const hints = "wnam enam sam weur eeur apac apac-ne apac-se oc afr me".split(" ");
  it.for(hints)("locationHint accepts %s", (locationHint) => {
    expect(parsed({ locationHint })).toMatchObject({ objects: { locationHint, shards: null } });
  });

  it.for(["eu", "us", "fedramp", "fedramp-high"])("jurisdiction accepts %s", (jurisdiction) => {
    expect(parsed({ jurisdiction, objects: "sharded" })).toMatchObject({
      objects: { jurisdiction, shards: 32, locationHint: null },
    });
  });

  it.for([true, false])("denyCache accepts %s", (denyCache) => {
    expect(parsed({ denyCache })).toMatchObject({ isDenyCached: denyCache });
  });

  it.for(["relaxed", "confirmed"])("durability accepts %s", (durability) => {
    expect(parsed({ durability })).toMatchObject({ durability });
  });

  const unless = 'nothing unless objects is "sharded"';
  const range = "an integer from 1 to 4096";
  const sharded = { objects: "sharded" };

  it.for<[string, unknown, Fields, string]>([
    ["objects", "single", {}, 'one of "per-key", "sharded"'],
    ["objects", "Sharded", {}, 'one of "per-key", "sharded"'],
    ["objects", 32, {}, 'one of "per-key", "sharded"'],
    ["objects", null, {}, 'one of "per-key", "sharded"'],
    ["shards", 32, {}, unless],
    ["shards", 0, {}, unless],
    ["shards", null, {}, unless],
    ["shards", 32, { objects: "per-key" }, unless],
    ["shards", 0, sharded, range],
    ["shards", 4097, sharded, range],
    ["shards", 1.5, sharded, range],
    ["shards", Infinity, sharded, range],
    ["shards", "32", sharded, range],
    ["shards", null, sharded, range],
    ["locationHint", "moon", {}, `one of ${hints.map((hint) => `"${hint}"`).join(", ")}`],
    ["locationHint", "WEUR", {}, `one of ${hints.map((hint) => `"${hint}"`).join(", ")}`],
    ["jurisdiction", "de", {}, 'one of "eu", "us", "fedramp", "fedramp-high"'],
    ["jurisdiction", ["eu"], {}, 'one of "eu", "us", "fedramp", "fedramp-high"'],
    ["durability", "strict", {}, '"relaxed" or "confirmed"'],
    ["durability", true, {}, '"relaxed" or "confirmed"'],
    ["denyCache", "false", {}, "true or false"],
    ["denyCache", 0, {}, "true or false"],
  ])("the field %s rejects %j together with the fields %j", ([field, value, others, accepted]) => {
    expect(problemsWith({ ...others, [field]: value })).toEqual([
      { variable: "POLICIES", field: `[0].${field}`, value, accepted },
    ]);
  });

  it("all problems of the fields about objects are reported together, except those that merely follow from another problem", () => {
    const wrong = { objects: "x", shards: 0, locationHint: 1, jurisdiction: {}, durability: "" };
    const fields = Object.keys(wrong).map((field) => `POLICIES [0].${field}`);
    const places = placesOf({ KEY_SECRET: "s", POLICIES: [{ ...policy, ...wrong }] });
    expect(places.toSorted()).toEqual(fields.toSorted());
    expect(problemsWith({ objects: "x", shards: 32 })).toHaveLength(1);
  });
});
