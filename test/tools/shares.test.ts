/** The page about fair shares shows the simulation that chose how long a key counts as active. */
import { expect, it } from "vitest";
import { measureTenants } from "../simulation/tenants.ts";
import { outdated } from "./generated.ts";
import { sharesDocs } from "./shares-page.ts";

const measured = measureTenants();

it("the page about fair shares has the simulated table and plot", () => {
  expect(outdated(sharesDocs(measured))).toEqual([]);
});

it("10 s is the only length with less than 1 % of denials for slow and bursty keys in both simulations", () => {
  const isBetter = ({ many, few }: (typeof measured)[number]): boolean =>
    Math.max(many.denied.slow, many.denied.bursty, few.denied.bursty) < 0.01;
  expect(measured.filter(isBetter).map(({ activeMs }) => activeMs)).toEqual([10_000]);
});
