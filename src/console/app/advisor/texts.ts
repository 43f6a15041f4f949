/** Numbers of the advisor as people read them. */
import type { Estimate } from "../../../advisor/search/advice.ts";
import type { FullLimit } from "../api/answers.ts";
import { limitLine } from "../policies/limits-text.ts";
import { durationText, numberText } from "../parts/text.ts";
import type { KnownSamples } from "../replay/messages.ts";

const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** "0.043 %", "12 %". */
export function shareText(share: number): string {
  const percent = 100 * share;
  if (percent > 0 && percent < 0.001) return "< 0.001 %";
  return `${(percent < 10 ? digits : tenths).format(percent)} %`;
}

/** "0.043 % (0.02 to 0.1 %)". */
export function shareEstimateText({ value, low, high }: Estimate): string {
  if (low === high) return shareText(value);
  return `${shareText(value)} (${shareText(low).replace(" %", "")} to ${shareText(high)})`;
}

/** "240 (180 to 310)". */
export function countEstimateText({ value, low, high }: Estimate): string {
  if (low === high) return rounded(value);
  return `${rounded(value)} (${rounded(low)} to ${rounded(high)})`;
}

const rounded = (value: number): string => numberText(Math.round(value));

export const limitsLine = (limits: readonly FullLimit[]): string => limits.map(limitLine).join("; ");

const hourMs = 3_600_000;

/** "Based on 41 of about 2,600 keys (1 in 64) with 12,345 requests in 24 h, 99.8 % coverage, until 2 min ago." */
export function samplesText(samples: KnownSamples, nowMs: number): string {
  const { keys, arrivals, coverage, source } = samples;
  const ofAll =
    source.oneKeyIn === 1
      ? `all ${keysText(keys)}`
      : `${numberText(keys)} of about ${roughText(keys * source.oneKeyIn)} keys (1 in ${numberText(source.oneKeyIn)})`;
  const hours = Math.max(1, Math.round((source.toMs - source.fromMs) / hourMs));
  const parts = [
    `${ofAll} with ${numberText(arrivals)} ${arrivals === 1 ? "request" : "requests"} in ${numberText(hours)} h`,
    `${coverageText(coverage)} coverage`,
    ageText(samples, nowMs),
  ];
  return `Based on ${parts.join(", ")}.`;
}

const keysText = (keys: number): string => `${numberText(keys)} ${keys === 1 ? "key" : "keys"}`;

/** Almost all is not all. */
const coverageText = (coverage: number): string =>
  coverage < 1 ? `${Math.min(99.9, Math.floor(1_000 * coverage) / 10)} %` : "100 %";

export const ageText = ({ storedAtMs }: KnownSamples, nowMs: number): string =>
  storedAtMs === null ? "none stored yet" : `until ${agoText(nowMs - storedAtMs)}`;

const minuteMs = 60_000;

/** Whole minutes, so that the text does not change each second. */
const agoText = (agoMs: number): string =>
  agoMs < minuteMs ? "less than a minute ago" : `${durationText(minuteMs * Math.floor(agoMs / minuteMs))} ago`;

/** Two digits: the number of all keys is estimated. */
const roughText = (count: number): string => {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(1, count))) - 1);
  return numberText(unit * Math.round(count / unit));
};

/** Isolates with traffic report every few seconds, so samples that are older show that none arrive. */
const oldMs = 900_000;
export const areOld = ({ storedAtMs }: KnownSamples, nowMs: number): boolean =>
  storedAtMs !== null && nowMs - storedAtMs > oldMs;
