"""A page of a business that does not exist, in three shapes with the same facts, written for the exam."""

from __future__ import annotations

PROSE = """\
Lindenhof Boats has hired out boats on the Lake of Ahrn since 1987. From the first of May to the end of \
September we are open every day but Tuesday, from nine in the morning until seven in the evening; in April and \
October only at weekends, from ten to five. In the months from November to March we are closed.

A rowing boat costs 14 euros an hour, a pedal boat 16 euros an hour, and a pedal boat with a slide 19 euros. For \
a whole day we ask 58 euros for the rowing boat and 68 euros for either pedal boat. Canoes are hired by the half \
day only, for 26 euros, or 29 euros at weekends. Electric boats cost 41 euros for the first hour and 31 for each \
further one; no licence is needed for them, but whoever steers must be at least 16 years old. Sailing boats we \
no longer hire out.

Life jackets are free, and children under twelve must wear one. Dogs may come aboard rowing boats and canoes, \
but not electric boats. There is a deposit of 50 euros, for electric boats 150, which can be left in cash or by \
card; the hire itself can be paid by card only from 20 euros on. We do not take cheques.

Groups of ten and more get 10 per cent off, except on Sundays. If it thunders we call all boats back and give \
you back the time that is left; for rain alone there is no money back. Who cancels up to 48 hours before pays \
nothing, after that half of the price. Boats that come back more than 15 minutes late cost another full hour.

The kiosk at the pier sells drinks and ice cream but no warm food. The nearest car park is at the church, 300 \
metres away, and costs 4 euros a day; at the pier itself only bicycles may stand.

Lindenhof Boats, Pier 3, 39032 Ahrn. Telephone 0474 55 81 20, in an emergency on the lake 0474 55 81 29. Owner: \
Greta Pircher. Prices valid until 31 October; children under six ride free."""

TIDY = """\
# Lindenhof Boats, Lake of Ahrn (since 1987)

## Open
- 1 May to 30 September: every day except Tuesday, 9:00 to 19:00
- April and October: Saturday and Sunday only, 10:00 to 17:00
- November to March: closed

## Prices
- Rowing boat: 14 euros an hour, 58 euros a day
- Pedal boat: 16 euros an hour, 68 euros a day
- Pedal boat with slide: 19 euros an hour, 68 euros a day
- Canoe: half days only, 26 euros; at weekends 29 euros
- Electric boat: first hour 41 euros, each further hour 31 euros. No licence needed; whoever steers must be 16 or older
- Sailing boats: no longer hired out

## Rules
- Life jackets are free; children under 12 must wear one
- Dogs: allowed on rowing boats and canoes, not on electric boats
- Deposit: 50 euros, electric boats 150 euros, in cash or by card
- Payment of the hire by card only from 20 euros on; no cheques
- Groups of 10 and more: 10 per cent off, except on Sundays
- Thunderstorm: all boats are called back, the time left is given back; for rain alone no money back
- Cancelling: free up to 48 hours before, then half of the price
- More than 15 minutes late: another full hour is charged

## Around the pier
- Kiosk: drinks and ice cream, no warm food
- Car park: at the church, 300 metres away, 4 euros a day; at the pier bicycles only

---
Lindenhof Boats, Pier 3, 39032 Ahrn. Telephone 0474 55 81 20; emergency on the lake 0474 55 81 29. Owner: Greta Pircher.
Prices valid until 31 October. Children under six ride free."""

LABELLED = """\
name: Lindenhof Boats
lake: Lake of Ahrn
founded: 1987
open from May to September: every day except Tuesday, 9:00 to 19:00
open in April and October: Saturday and Sunday only, 10:00 to 17:00
open from November to March: no, closed
price of a rowing boat: 14 euros an hour, 58 euros a day
price of a pedal boat: 16 euros an hour, 68 euros a day
price of a pedal boat with slide: 19 euros an hour, 68 euros a day
price of a canoe: half days only, 26 euros; at weekends 29 euros
price of an electric boat: 41 euros for the first hour, 31 euros for each further hour
licence for an electric boat: not needed
age for steering an electric boat: 16 or older
sailing boats: no longer hired out
life jackets: free; children under 12 must wear one
dogs: allowed on rowing boats and canoes, not on electric boats
deposit: 50 euros
deposit for an electric boat: 150 euros
deposit paid: in cash or by card
hire paid by card: only from 20 euros on
cheques: not taken
groups: 10 and more get 10 per cent off, except on Sundays
thunderstorm: all boats are called back, the time left is given back
rain: no money back
cancelling: free up to 48 hours before, then half of the price
more than 15 minutes late: another full hour is charged
kiosk: drinks and ice cream, no warm food
car park: at the church, 300 metres away, 4 euros a day
parking at the pier: bicycles only
address: Pier 3, 39032 Ahrn
telephone: 0474 55 81 20
emergency telephone on the lake: 0474 55 81 29
owner: Greta Pircher
prices valid until: 31 October
children under six: ride free"""

SHAPES = {"prose": PROSE, "tidy": TIDY, "labelled": LABELLED}
