/** The plot of `npm run advise`: the share denied against the worst burst at the origin, by strategy. */
import { dot, gridX, gridY, type PlotOptions, ruleY, text as textMark } from "@observablehq/plot";
import type { Candidate } from "../search/advice.ts";
import { goalText } from "../search/goal.ts";
import type { CheckedAdvice } from "../search/second-half.ts";
import { chosenOf } from "./advice-report.ts";
import { drawFigure, type Theme } from "./figure.ts";
import { rateText, ratesText } from "./limit-sets.ts";
import { countText, fittedText, percentText } from "./report-text.ts";
import { requestsOfKeys, type ReadTraffic } from "./traffic.ts";

/** An SVG with a background of its own, so that light and dark pages can show it. */
export function adviceFigure(
  { name }: Pick<ReadTraffic, "name">,
  { advice, chosenFrom, secondHalf }: CheckedAdvice,
): string {
  const { candidates, goal } = advice;
  const part = secondHalf === null ? "" : "first half, ";
  const chosen = chosenOf(advice);
  const strategies = [...new Set(candidates.map(({ strategy }) => strategy))];
  const choice = chosen === null ? "" : `${choiceTexts[advice.recommendation.kind]}: ${ratesText(chosen.limits)}.`;
  const { light } = drawFigure({
    title: `Limits for the goal: ${goalText(goal)}`,
    subtitle: `${fittedText(name, 40)}: ${part}${requestsOfKeys(chosenFrom)}. ${choice}`,
    description: `Scatter plot of the denied requests in percent against the worst burst at the origin. ${candidates.map(sentence).join(" ")} ${choice}`,
    panels: (theme) => [legend(theme, strategies), plotOf(theme, candidates, strategies, chosen)],
  });
  return light;
}

const choiceTexts = {
  recommended: "Recommended",
  global: "Recommended for all keys together",
  unneeded: "",
  wait: "",
} as const;

function legend(theme: Theme, strategies: readonly string[]): PlotOptions {
  const places = strategies.map((_, index) => 64 + index * 190);
  const x = (_: string, index: number) => places[index] ?? 0;
  const fill = (_: string, index: number) => colourOf(theme, index);
  return {
    height: 28,
    axis: null,
    marginLeft: 0,
    marginRight: 0,
    x: { domain: [0, 860], range: [0, 860] },
    marks: [
      dot(strategies, { x, fill, r: 4 }),
      textMark(strategies, { x, text: (name: string) => name, dx: 10, textAnchor: "start" }),
    ],
  };
}

function plotOf(
  theme: Theme,
  candidates: readonly Candidate[],
  strategies: readonly string[],
  chosen: Candidate | null,
): PlotOptions {
  const mostBurst = candidates.reduce((most, each) => Math.max(most, burstOf(each)), 1);
  const mostPercent = candidates.reduce((most, each) => Math.max(most, percentOf(each)), 0);
  const place = { x: burstOf, y: percentOf };
  const colour = ({ strategy }: Candidate) => colourOf(theme, strategies.indexOf(strategy));
  return {
    height: 420,
    marginLeft: 64,
    marginRight: 24,
    marginTop: 36,
    marginBottom: 44,
    x: { label: "worst burst at the origin, requests per second", domain: [0, mostBurst * 1.2] },
    y: { label: "denied requests, %", domain: [0, mostPercent === 0 ? 1 : mostPercent * 1.05] },
    marks: [
      gridX(),
      gridY(),
      ruleY([0]),
      dot(candidates, { ...place, fill: colour, r: 4 }),
      dot(chosen === null ? [] : [chosen], { ...place, stroke: theme.text, strokeWidth: 2, r: 8 }),
      textMark(labelled(candidates, chosen, mostBurst * 1.2, mostPercent), {
        ...place,
        text: ({ limits }: Candidate) => limits.map(rateText).join("; "),
        fontWeight: 400,
        dx: 13,
        textAnchor: "start",
      }),
    ],
  };
}

/** The chosen candidate, and others whose labels do not overlap. */
function labelled(
  candidates: readonly Candidate[],
  chosen: Candidate | null,
  mostBurst: number,
  mostPercent: number,
): Candidate[] {
  const shown: Candidate[] = chosen === null ? [] : [chosen];
  for (const candidate of candidates) {
    const overlaps = shown.some(
      (other) =>
        Math.abs(burstOf(other) - burstOf(candidate)) < mostBurst * 0.14 &&
        Math.abs(percentOf(other) - percentOf(candidate)) < (mostPercent || 1) * 0.045,
    );
    if (!overlaps) shown.push(candidate);
  }
  return shown;
}

const burstOf = ({ worstBurst }: Candidate): number => worstBurst.value;
const percentOf = ({ deniedShare }: Candidate): number => deniedShare.value * 100;

const sentence = (candidate: Candidate): string =>
  `${ratesText(candidate.limits)}: ${percentText(candidate.deniedShare.value)}, ${countText(burstOf(candidate))} per second.`;

function colourOf({ colours }: Theme, index: number): string {
  const series = [colours.blue, colours.orange, colours.green, colours.pink, colours.grey];
  return series[index % series.length] ?? colours.grey;
}
