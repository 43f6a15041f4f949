/** The variables of alerts: `ALERT_WEBHOOK`, `ALERT_SECRET`, `ALERT_DENIED_SHARE`, `ALERT_KEYS`. */
import type { KnownVariables, VariableName } from "./known-variables.ts";
import { readTexts } from "./texts.ts";
import { hidden, isSet, type ReportProblem, type Variables } from "./variables.ts";

export interface AlertSettings {
  /** Receives a POST for each alert. The address may itself be a secret. */
  readonly webhook: URL;
  /** Signs the requests; null when they are not signed. */
  readonly secret: Uint8Array<ArrayBuffer> | null;
  /** A policy raises an alert when its denials pass this share of its decisions, from 0 to 1. */
  readonly deniedShare: number;
  /** The policies whose keys raise an alert when they pass 80, 90 or 100 % of a limit. */
  readonly keys: ReadonlySet<string>;
}

const defaultShare = 0.2;
/** The bounds of Standard Webhooks. */
const leastSecretBytes = 24;
const mostSecretBytes = 64;

/**
 * Null without `ALERT_WEBHOOK`.
 * @param policies the names of all policies; null when they are not known, and `ALERT_KEYS` may name any
 */
export function readAlerts(
  env: KnownVariables,
  policies: readonly string[] | null,
  report: ReportProblem,
): AlertSettings | null {
  const webhook = readWebhook(env.ALERT_WEBHOOK, report);
  const secret = readSecret(env.ALERT_SECRET, report);
  const deniedShare = readShare(env.ALERT_DENIED_SHARE, report);
  const keys = readPolicyNames(env, policies, report);
  return webhook === null ? null : { webhook, secret, deniedShare, keys };
}

/** The settings of valid variables. The control plane object reads them; isolates report the problems of invalid ones. */
export function alertSettings(variables: Variables): AlertSettings | null {
  let isValid = true;
  const settings = readAlerts(variables, null, () => {
    isValid = false;
  });
  return isValid ? settings : null;
}

/** A line for each setting that has no effect. */
export function alertWarnings(env: KnownVariables, hasAdmin: boolean): string[] {
  if (isSet(env.ALERT_WEBHOOK)) {
    return hasAdmin
      ? []
      : ["ALERT_WEBHOOK: has no effect without ADMIN_TOKENS or ACCESS_TEAM, because alerts need the control plane"];
  }
  const unused = ["ALERT_SECRET", "ALERT_KEYS"] as const satisfies VariableName[];
  return unused
    .filter((variable) => isSet(env[variable]))
    .map((variable) => `${variable}: has no effect without ALERT_WEBHOOK`);
}

/** Whether the host is this machine, so that no one on a network path can read a request. */
const isLocalHost = (host: string): boolean => /^(?:(?:.+\.)?localhost|127\.0\.0\.1|\[::1\])$/.test(host);

function readWebhook(value: unknown, report: ReportProblem): URL | null {
  if (!isSet(value)) return null;
  const url = typeof value === "string" && URL.canParse(value) ? new URL(value) : null;
  const isSafe = url?.protocol === "https:" || (url?.protocol === "http:" && isLocalHost(url.hostname));
  // `fetch` rejects a URL with credentials.
  if (url !== null && isSafe && `${url.username}${url.password}` === "") return url;
  const accepted = "an https URL without credentials that accepts a POST, or an http URL of localhost";
  // The paths of many webhooks are secrets.
  report({ variable: "ALERT_WEBHOOK", field: "", value: hidden, accepted });
  return null;
}

function readSecret(value: unknown, report: ReportProblem): Uint8Array<ArrayBuffer> | null {
  if (!isSet(value)) return null;
  const [, base64 = ""] =
    /^(?:whsec_)?((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/.exec(
      typeof value === "string" ? value.trim() : "",
    ) ?? [];
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  if (bytes.length >= leastSecretBytes && bytes.length <= mostSecretBytes) return bytes;
  const accepted =
    `${leastSecretBytes} to ${mostSecretBytes} random bytes in base64, with or without "whsec_" before them, ` +
    "such as `openssl rand -base64 32` prints";
  report({ variable: "ALERT_SECRET", field: "", value: hidden, accepted });
  return null;
}

function readShare(value: unknown, report: ReportProblem): number {
  if (!isSet(value)) return defaultShare;
  const [, percent] = /^\s*(\d{1,3}(?:\.\d+)?)\s*%\s*$/.exec(String(value)) ?? [];
  const share = Number(percent) / 100;
  if (share > 0 && share <= 1) return share;
  const accepted = 'a percentage above 0 and up to 100, such as "20%"';
  report({ variable: "ALERT_DENIED_SHARE", field: "", value, accepted });
  return defaultShare;
}

function readPolicyNames(
  env: KnownVariables,
  policies: readonly string[] | null,
  report: ReportProblem,
): ReadonlySet<string> {
  const accepted = "the name of a policy, or a list of names";
  const texts = readTexts("ALERT_KEYS", env, accepted, report) ?? [];
  const names = texts.flatMap((text) => text.split(",")).map((name) => name.trim());
  const unknown = names.find((name) => policies?.includes(name) === false);
  if (unknown !== undefined) {
    const value = unknown;
    report({ variable: "ALERT_KEYS", field: "", value, accepted: `names of your policies` });
  }
  return new Set(names);
}
