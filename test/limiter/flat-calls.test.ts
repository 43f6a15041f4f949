/** The flat form of checks and replies: decoding returns the values that were encoded. */
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { answerChecks } from "../../src/limiter/flat-calls.ts";
import { decodeReplies, encodeChecks } from "../../src/limiter/isolate/key-group.ts";
import type { KeyCheck } from "../../src/limiter/isolate/outcome.ts";
import type { Charge, CheckCall, CheckReply } from "../../src/limiter/protocol.ts";
import { charge } from "../fakes/calls.ts";
import { keyCheckOf } from "../fakes/key-checks.ts";
import { TestObject } from "../fakes/test-object.ts";
import { forAll } from "../for-all.ts";
import { limitOf, type Variant, variants } from "../strategies/variants.ts";

/** The replies of an object, which arrive as structured clones. */
function decided(
  checks: readonly KeyCheck[],
  answer: (call: CheckCall, isLook: boolean) => CheckReply,
): (CheckReply | Error)[] {
  const sent = structuredClone(encodeChecks(checks));
  return decodeReplies(checks, structuredClone(answerChecks(...sent, answer)));
}

const arbitraryVariant = fc.constantFrom<Variant>(...variants);

const arbitraryCharge = fc
  .record({
    policy: fc.constantFrom("p", "q", "r"),
    limits: fc.array(
      fc
        .tuple(arbitraryVariant, fc.integer({ min: 1, max: 20 }))
        .map(([variant, limit]) => limitOf(variant, limit, 60_000, variant.strategy)),
      { minLength: 1, maxLength: 3 },
    ),
    cost: fc.integer({ min: 0, max: 12 }),
    isDryRun: fc.boolean(),
    hasBan: fc.boolean(),
    rules: fc.option(fc.record({ epoch: fc.nat(3), version: fc.nat(3), text: fc.string() })),
  })
  .map(({ policy, limits, cost, isDryRun, hasBan, rules }): Charge => {
    const [strikes, term] = [charge("3/hour").limits, charge("1/minute").limits];
    return {
      policy,
      limits,
      cost,
      ...(isDryRun && { isDryRun }),
      ...(hasBan && !isDryRun && { ban: { strikes, term } }),
      ...(rules !== null && { rules }),
    };
  });

const arbitraryCheck = fc.record({
  charges: fc.uniqueArray(arbitraryCharge, {
    minLength: 1,
    maxLength: 3,
    selector: ({ policy }) => policy,
  }),
  kind: fc.constantFrom("look" as const, "relaxed" as const, "confirmed" as const),
  provisionalMs: fc.constantFrom(0, 0, 2_000),
  passMs: fc.integer({ min: 0, max: 40_000 }),
});

describe("flat calls", () => {
  it(
    "an object receives each check of a flat call as it was sent",
    forAll([fc.array(arbitraryCheck, { maxLength: 5 })], (drawn) => {
      const checks = drawn.map((each) => keyCheckOf(each.charges, each.kind, each.provisionalMs));
      const received: unknown[] = [];
      decided(checks, (call, isLook) => {
        received.push({ ...call, isLook });
        return { decisions: [], spentAtMs: [] };
      });
      const sent = drawn.map(({ charges, kind, provisionalMs }) => ({
        key: "k",
        charges,
        durability: kind === "confirmed" ? "confirmed" : "relaxed",
        provisionalMs,
        isLook: kind === "look",
      }));
      expect(received).toEqual(structuredClone(sent));
    }),
  );

  it(
    "an isolate decodes each reply as the object encoded it, for all strategies, bans, dry runs, several charges and stale rules",
    forAll(
      [fc.array(arbitraryCheck, { minLength: 1, maxLength: 12 })],
      (drawn) => {
        const object = new TestObject();
        for (const { charges, kind, provisionalMs, passMs } of drawn) {
          object.advance(passMs);
          const replies: CheckReply[] = [];
          const read = decided([keyCheckOf(charges, kind, provisionalMs)], (call, isLook) => {
            const reply = isLook ? object.limiter.look(call) : object.limiter.check(call);
            replies.push(reply);
            return reply;
          });
          const [isFirm] = replies;
          expect(read).toEqual(replies);
          expect(JSON.stringify(read)).toBe(JSON.stringify(replies));
          expect(isFirm).toBeDefined();
        }
      },
      300,
    ),
  );

  it("a reply carries key rules, and the duration of a denial that is firm for less than a second", () => {
    const check = keyCheckOf([charge("5/minute")]);
    const reply = (fields: Partial<CheckReply>): CheckReply => {
      const decision = new TestObject().limiter.check({ key: "k", charges: [charge("5/minute")] });
      return { ...decision, ...fields };
    };
    for (const each of [
      reply({ keyRules: [{ id: "b", kind: "block" }] }),
      reply({ isFirm: true }),
      reply({ isFirm: true, firmForMs: 7 }),
    ]) {
      expect(decided([check], () => each)).toEqual([each]);
    }
  });

  it.each(["share", "class", "keys"] as const)("a reply carries the reason %s of a denial", (reason) => {
    const sent = charge("5/minute", 6);
    const reply = new TestObject().limiter.check({ key: "k", charges: [sent] });
    const denied = { ...reply, decisions: reply.decisions.map((decision) => ({ ...decision, reason })) };
    expect(decided([keyCheckOf([sent])], () => denied)).toEqual([denied]);
  });

  it("a check that throws does not fail the other checks of the call", () => {
    const object = new TestObject();
    const good = keyCheckOf([charge("5/minute")]);
    const sent = [good, keyCheckOf([charge("6/minute")]), keyCheckOf([charge("7/minute")]), good];
    const [[text = ""], checks] = encodeChecks(sent);
    const broken = "{";
    const alien = '{"policy":"p"}';
    const read = decodeReplies(sent, object.limiter.decide([text, broken, alien], structuredClone(checks)));
    expect(read.map((each) => (each instanceof Error ? each.name : each.decisions[0]?.allowed))).toEqual([
      true,
      "SyntaxError",
      "TypeError",
      true,
    ]);
    expect(object.remaining(charge("5/minute"))).toBe(3);
  });

  it("checks of an unknown form fail the whole call", () => {
    const { limiter } = new TestObject();
    expect(() => limiter.decide([], ["k", 0, 1])).toThrow(TypeError);
    expect(() => limiter.decide([], ["k", 0, 1, -1])).toThrow(TypeError);
  });

  it("fields that a later version adds to charges and replies pass through the flat form", () => {
    const later = { ...charge("5/minute"), later: [1] };
    const reply = new TestObject().limiter.check({ key: "k", charges: [charge("5/minute")] });
    const answer = vi
      .fn<(call: CheckCall) => CheckReply>()
      .mockReturnValue(Object.assign(reply, { later: { text: "unknown" } }));
    const { cost, ...text } = later;
    const replies = answerChecks([JSON.stringify(text)], ["k", 0, 1, 1, 0, cost], answer);
    expect(decodeReplies([keyCheckOf([later])], replies)).toEqual([{ ...reply, later: { text: "unknown" } }]);
    expect(answer.mock.calls[0]?.[0].charges).toEqual([later]);
  });

  it("a reply with more values than those of its checks is an error", () => {
    const check = keyCheckOf([charge("5/minute")]);
    const replies = new TestObject().limiter.decide(...encodeChecks([check]));
    expect(decodeReplies([check], replies)).toHaveLength(1);
    expect(() => decodeReplies([check], [...replies, 0])).toThrow(TypeError);
  });

  it("a reply that ends too early is an error", () => {
    expect(() => decodeReplies([keyCheckOf([charge("5/minute")])], [0, 1])).toThrow(TypeError);
  });
});
