// What the page uses of the protocol: the types that are generated from the server's, without null, because a tether server
// leaves absent members out. Session ids are public ones.
import type * as wire from "../../../../schema/tether.ts";

type Present<T> = T extends (infer E)[]
  ? Present<Exclude<E, null>>[]
  : T extends object
    ? { [K in keyof T]: Present<Exclude<T[K], null>> }
    : T;

export type InitializeResult = Present<wire.InitializeResult>;
export type LogEvent = Present<wire.LogEvent>;
export type ProcessInfo = Present<wire.ProcessInfo>;
export type ReadResult = Present<wire.ReadAnyResult>;
export type SearchLine = Present<wire.SearchLine>;
export type SearchResult = Present<wire.SearchResult>;
export type SessionInfo = Present<wire.SessionInfo>;
export type StateDetail = Present<wire.StateDetail>;
export type DescribeResult = Present<wire.DescribeResult>;
