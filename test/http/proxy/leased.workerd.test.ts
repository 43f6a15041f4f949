import { describe, expect, it } from "vitest";
import { type Headgate, headgate } from "../harness.ts";

const policy = {
  name: "p",
  key: "header:x-user",
  limits: "1000/hour",
  strategy: "fixed-window",
  consistency: "leased",
};
const user = { headers: { "X-User": "u1" } };

/** The fields of as many answers. */
async function fieldsOf({ begin }: Headgate, requests: number): Promise<(string | null)[]> {
  const fields = [];
  for (let request = 0; request < requests; request++) {
    // oxlint-disable-next-line no-await-in-loop
    const response = await begin("/", user).response;
    fields.push(response.headers.get("RateLimit"));
  }
  return fields;
}

describe("a policy that is leased", () => {
  it("tells of its limits whoever has decided, and counts each request once", async () => {
    const gate = headgate({ POLICIES: [policy] });
    const fields = await fieldsOf(gate, 100);
    for (const each of fields) expect(each).toMatch(/^"p";r=[89]\d\d;t=\d+$/);
    // As the object sees it, what is lent is spent; when the slices are over it is what was.
    await gate.begin("/", user).over();
    const look = await gate.check("GET", "/check?key=u1");
    const { limits } = await look.json<{ limits: { remaining: number }[] }>();
    expect(limits[0]?.remaining).toBeLessThanOrEqual(899);
  });

  it("denies like any other, and asks for each where little is left", async () => {
    const gate = headgate({ POLICIES: [{ ...policy, limits: "20/hour" }] });
    const statuses = [];
    for (let request = 0; request < 25; request++) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push((await gate.begin("/", user).response).status);
    }
    expect(statuses.filter((status) => status === 200)).toHaveLength(20);
  });
});
