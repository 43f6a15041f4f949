/** A site whose policies are the tree `org` and `user`, for tests in one process. */
import { explainedKey } from "../../src/admin/explain/explanation.ts";
import { type CallerContext, look } from "../../src/http/check/operations.ts";
import type { CheckAnswer } from "../../src/http/check/answer.ts";
import { type Failure, isFailure } from "../../src/http/wire/problems.ts";
import { CountedSite } from "./counted-site.ts";

export const log = { strategy: "sliding-log" };
const org = { name: "org", key: "header:x-org", limits: "5/hour", ...log };
const user = { name: "user", within: "org", key: "header:x-user", limits: "2/hour", denyCache: undefined, ...log };

export const treeOf = (root: object = {}, child: object = {}, ...others: readonly object[]): CountedSite =>
  new CountedSite([{ ...org, ...root }, { ...user, ...child }, ...others]);

export const callOf = ({ runtime, waitUntil }: CountedSite): CallerContext => ({ runtime, tenant: null, waitUntil });

export const ann = { policy: "user", key: ["acme", "ann"] };
export const bob = { policy: "user", key: ["acme", "bob"] };

export const remainingIn = (answer: CheckAnswer | Failure): number[] | string =>
  isFailure(answer) ? answer.kind : answer.limits.map(({ remaining }) => remaining);

export const remaining = async (site: CountedSite, check = ann): Promise<number[] | string> =>
  remainingIn(await look(callOf(site), { ...check, cost: 0 }));

export const by = (organisation: string, person: string): Record<string, string> => ({
  "X-Org": organisation,
  "X-User": person,
});

export const explain = async (site: CountedSite, key: (string | null)[]) => {
  const { runtime, waitUntil, isolate } = site;
  const context = { runtime: { ...runtime, control: null }, nowMs: isolate.clock.now(), waitUntil };
  const attributes = new Map([["ip", ["192.0.2.1"]]]);
  const explained = await explainedKey(
    { ...context, knownRules: () => Promise.resolve(null) },
    { policy: "user", key, attributes },
  );
  if (isFailure(explained)) throw new Error(`refused: ${JSON.stringify(explained)}`);
  return explained;
};

export const keyIn = (headers: Readonly<Record<string, string | undefined>>, name: string): string | null =>
  headers[name] ?? null;
